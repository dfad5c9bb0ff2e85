"""Photos from clients: every kind of file, named in every way."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgecape.io.images import load_image
from edgecape.studio.checks import LONGEST_LABEL, as_label
from edgecape.studio.exports import file_names
from edgecape.studio.models import Photo

from service import client, encoded, lamp, marks, predict, save, upload, upload_lamps


@pytest.fixture
def http(tmp_path: Path):
    with client(tmp_path / "project") as made:
        yield made


def sideways() -> bytes:
    """As phones store a portrait: 60 × 40 pixels, to be turned right."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(lamp()[0][:40, :60], "JPEG", exif=exif)


def frames() -> bytes:
    first, second = (Image.fromarray(np.full((30, 50, 3), grey, np.uint8)) for grey in (10, 200))
    return encoded(first, "WEBP", save_all=True, append_images=[second], lossless=True)


PICTURE = lamp()[0][:40, :60]
GOOD = {
    "jpeg": (encoded(PICTURE, "JPEG"), (60, 40), "image/jpeg"),
    "png": (encoded(PICTURE), (60, 40), "image/png"),
    "webp": (encoded(PICTURE, "WEBP"), (60, 40), "image/webp"),
    "bmp": (encoded(PICTURE, "BMP"), (60, 40), "image/jpeg"),
    "gif": (encoded(PICTURE, "GIF"), (60, 40), "image/jpeg"),
    "tiff": (encoded(PICTURE, "TIFF"), (60, 40), "image/jpeg"),
    "one pixel": (encoded(PICTURE[:1, :1]), (1, 1), "image/png"),
    "grey": (encoded(PICTURE[..., 0]), (60, 40), "image/png"),
    "16-bit grey": (encoded(Image.fromarray(PICTURE[..., 0].astype(np.uint16) * 200)), (60, 40), "image/jpeg"),
    "cmyk": (encoded(Image.fromarray(PICTURE).convert("CMYK"), "JPEG"), (60, 40), "image/jpeg"),
    "transparent": (encoded(Image.fromarray(PICTURE).convert("RGBA")), (60, 40), "image/png"),
    "palette": (encoded(Image.fromarray(PICTURE).convert("P")), (60, 40), "image/png"),
    "turned": (sideways(), (40, 60), "image/jpeg"),
    "long": (encoded(np.zeros((1, 70_000, 3), np.uint8), "BMP"), (70_000, 1), "image/png"),
}


@pytest.mark.parametrize("kind", GOOD)
def test_every_kind_is_shown_upright(http, kind, tmp_path):
    data, size, media_type = GOOD[kind]
    answer = upload(http, ("a picture", data))
    assert answer.status_code == 200, answer.text
    photo = answer.json()["photos"][0]
    assert (photo["width"], photo["height"]) == size
    shown = http.get(f"/api/v1/photos/{photo['id']}")
    assert shown.headers["content-type"] == media_type and "immutable" in shown.headers["cache-control"]
    with Image.open(io.BytesIO(shown.content)) as picture:
        assert picture.size == size and getattr(picture, "n_frames", 1) == 1
        assert picture.getexif().get(0x0112, 1) == 1
    (tmp_path / "as uploaded").write_bytes(data)
    (tmp_path / "as shown").write_bytes(shown.content)
    same = [load_image(tmp_path / name).astype(int) for name in ("as uploaded", "as shown")]
    assert np.abs(same[0] - same[1]).mean() < 4  # what the model sees is what is shown; JPEG costs a little
    thumb = http.get(f"/api/v1/photos/{photo['id']}?thumb=1")
    with Image.open(io.BytesIO(thumb.content)) as picture:
        assert picture.format == "JPEG" and max(picture.size) <= 320
        if size[0] < 320:
            assert picture.size == size


def test_thumbnails_of_large_photos(http):
    photo = upload(http, ("large.jpg", encoded(np.zeros((2000, 1000, 3), np.uint8), "JPEG"))).json()["photos"][0]
    with Image.open(io.BytesIO(http.get(f"/api/v1/photos/{photo['id']}?thumb=true").content)) as picture:
        assert picture.size == (160, 320)


def bomb(width: int, height: int) -> bytes:
    """A few bytes that promise a huge picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(10_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


BAD = {
    "nothing": (b"", 415, "empty"),
    "text": (b"hello, I am a photo" * 20, 415, "not a photo"),
    "html": (b"<script>alert(1)</script>", 415, "not a photo"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>', 415, "not a photo"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "not a photo"),
    "animated": (frames(), 415, "holds 2 pictures"),
    "half a jpeg": (encoded(lamp()[0], "JPEG")[:3000], 415, "truncated"),
    "half a png": (encoded(lamp()[0])[:3000], 415, "choose another"),
    "a header": (b"\x89PNG\r\n\x1a\n" + bytes(40), 415, "choose"),
    "damaged tiff": (b"II*\0" + bytes(range(200)), 415, "choose"),
    "bomb": (bomb(60_000, 60_000), 413, "pixels"),
    "above the limit": (bomb(9_000, 8_000), 413, "9000 × 8000"),
    "lies about its size": (bomb(4_000, 4_000), 415, "choose"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_photo_is_told(http, kind, tmp_path):
    data, status, message = BAD[kind]
    answer = upload(http, ("strange.jpg", data))
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"] and "'strange.jpg'" in answer.json()["error"]
    assert answer.json()["photos"] == [] and answer.json()["failed"][0]["name"] == "strange.jpg"
    together = upload(http, ("strange.jpg", data), ("good.png", encoded(PICTURE)))
    assert together.status_code == 200
    assert [photo["name"] for photo in together.json()["photos"]] == ["good.png"]
    assert [one["name"] for one in together.json()["failed"]] == ["strange.jpg"]
    assert len(list((tmp_path / "project" / "photos").iterdir())) == 1


def test_the_same_bytes_are_one_photo(http):
    answer = upload(http, ("a.png", encoded(PICTURE)), ("b.png", encoded(PICTURE)))
    again = upload(http, ("c.png", encoded(PICTURE)))
    assert [photo["name"] for photo in answer.json()["photos"]] == ["a.png"]
    assert again.json()["photos"] == answer.json()["photos"] and len(http.get("/api/v1/project").json()["photos"]) == 1


NAMES = [
    "../../outside.png",
    "..\\..\\outside.png",
    "/etc/outside.png",
    "C:\\outside.png",
    "nul\0byte.png",
    "two\nlines.png",
    "x" * 5000 + ".png",
    "ü" * 250 + ".png",
    "猫の写真 🐱.png",
    "",
    ".",
    "..",
    ".hidden.png",
    "con.png",
    'quote".png',
    "percent%2e%2e%2f.png",
]


def test_names_are_labels_only(http, tmp_path):
    """However files are called, nothing is written but inside the project, and nothing by those names."""
    before = tree(tmp_path)
    for number, name in enumerate(NAMES):
        answer = http.post("/api/v1/photos", **multipart("files", name, encoded(lamp(number)[0])))
        assert answer.status_code in (200, 400, 422), (name, answer.text)
    photos = http.get("/api/v1/project").json()["photos"]
    assert len(photos) >= len(NAMES) - 2
    for photo in photos.values():
        assert photo["name"] == as_label(photo["name"]) and "/" not in photo["name"]
    queries = [{"photo": id_} for id_ in photos]
    prompt = http.post("/api/v1/prompts", json=marks(next(iter(photos)))).json()["id"]
    found = predict(http, prompt, list(photos))
    for query, line in zip(queries, found, strict=True):
        query |= {"state": "predicted", "pose": line["pose"] | {"moved": [False] * len(line["pose"]["scores"])}}
    body = marks(next(iter(photos)))
    assert save(http, queries=queries, names=body["names"], skeleton=body["skeleton"]).status_code == 200
    for format in http.get("/api/v1/formats").json():
        for photos_too in (False, True):
            answer = http.post("/api/v1/export", json={"format": format["name"], "photos": photos_too})
            assert answer.status_code == 200, (format, answer.text)
    archive = http.get("/api/v1/project/archive").content
    assert http.post("/api/v1/project/archive", files={"file": ("../x.zip", archive)}).status_code == 200
    new = tree(tmp_path) - before
    assert {path.relative_to(tmp_path).parts[0] for path in new} == {"project"}
    for path in new:
        name = path.relative_to(tmp_path / "project").as_posix()
        assert name in (".", "project.json", "photos", ".work") or (name.startswith("photos/") and len(name) == 27), (
            name
        )


def tree(folder: Path) -> set[Path]:
    return {Path(parent) / name for parent, folders, files in os.walk(folder) for name in (*folders, *files)}


def multipart(field: str, name: str, content: bytes) -> dict:
    """Written by hand: clients clean such names, an attacker does not."""
    head = f'--b\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'.encode()
    return {
        "content": head + content + b"\r\n--b--\r\n",
        "headers": {"Content-Type": "multipart/form-data; boundary=b"},
    }


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("a/b\\c.png", "c.png"),
        (None, "photo"),
        ("\0\n", "photo"),
        ("\ud800.png", "?.png"),
        ("x" * 300 + ".jpeg", "x" * 190 + ".jpeg"),
        ("y" * 300, "y" * LONGEST_LABEL),
        ("a." + "z" * 300, "a." + "z" * 9),
    ],
)
def test_labels(name, label):
    assert as_label(name) == label and as_label(label) == label


def test_exported_names_differ_and_fit_any_disk():
    labels = ["cat.jpg", "CAT.png", "cat.jpg", "..", "a:b?.jpg", "noending", "ü" * 180 + ".jpg", "ü" * 181 + ".jpg"]
    photos = [Photo(id=f"{n:016x}", name=label, width=1, height=1) for n, label in enumerate(labels)]
    names = list(file_names(photos).values())
    assert names[0] == "cat.jpg" and names[4] == "a_b_.jpg" and names[5] == "noending.jpg"
    stems = [Path(name).stem.casefold() for name in names]
    assert len(set(stems)) == len(stems) and all(0 < len(name.encode()) < 200 and "/" not in name for name in names)


@pytest.mark.parametrize("content", [None, b"", b"no picture any more"])
def test_a_photo_that_went_bad_is_told(http, content):
    id_ = upload_lamps(http, 1)[0]
    path = http.app.state.studio.store.path(id_)
    path.unlink() if content is None else path.write_bytes(content)
    for address in (f"/api/v1/photos/{id_}", f"/api/v1/photos/{id_}?thumb=1"):
        answer = http.get(address)
        assert answer.status_code == 404 and "'lamp0.png' cannot be read any more" in answer.json()["error"]


def test_a_photo_in_use_stays(http):
    first, second = upload_lamps(http, 2)
    assert save(http, queries=[{"photo": first}]).status_code == 200
    refused = http.delete(f"/api/v1/photos/{first}")
    assert refused.status_code == 409 and "lamp0.png" in refused.json()["error"]
    assert http.delete(f"/api/v1/photos/{second}").status_code == 204
    assert http.get(f"/api/v1/photos/{second}").status_code == 404
    assert http.delete(f"/api/v1/photos/{second}").status_code == 404
    assert list(http.get("/api/v1/project").json()["photos"]) == [first]


def test_photos_of_phones(http, monkeypatch):
    pillow_heif = pytest.importorskip("pillow_heif")
    file = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(PICTURE)).save(file)
    photo = upload(http, ("phone.heic", file.getvalue())).json()["photos"][0]
    assert (photo["width"], photo["height"]) == (60, 40)
    assert http.get(f"/api/v1/photos/{photo['id']}").headers["content-type"] == "image/jpeg"
    monkeypatch.setattr("edgecape.studio.pictures.open_heic", lambda: False)
    refused = upload(http, ("phone.heic", file.getvalue()))
    assert refused.status_code == 415 and "pip install" in refused.json()["error"]
