from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from edgecape.errors import EdgeCapeError, SettingsError
from edgecape.evaluation.calibration import Samples, both_ways, fit_balanced, reliability
from edgecape.evaluation.episodes import protocol_episodes
from edgecape.evaluation.evaluate import evaluate
from edgecape.evaluation.methods import ModelMethod, final
from edgecape.matching.scores import Calibration
from edgecape.model.network import Network
from edgecape.training.loop import Objective, PhaseTrainer, adopt, enter_phase, first_network, train
from edgecape.training.sampler import EpisodeSettings
from edgecape.training.settings import PHASES, RECIPES, PhaseSettings, recipe
from edgecape.weights.store import load_model

from toy import NETWORK, ToyBackbone, lamps, store, training

RUN = Path(__file__).parent / "toy_run.py"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    lamps(folder, 6, ("lamp", "light"))
    return folder


@pytest.fixture(scope="module")
def data(photos: Path):
    return lamps(photos, 6, ("lamp", "light"))


@pytest.fixture(scope="module")
def finished(photos: Path, data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all three phases, done by one process without a break."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    torch.set_num_threads(1)
    train(training(8, initialisation="matching"), data, store(photos / "cache"), folder, validation=data)
    return folder


def test_a_run_leaves_everything(finished: Path):
    names = {path.name for path in finished.iterdir()}
    assert {"settings.json", "log.jsonl", "curves.png", "last.checkpoint", "base", "graph", "bias"} <= names
    resolved = json.loads((finished / "settings.json").read_text())
    assert resolved["settings"]["batch"] == 4 and len(resolved["data"]) == 16 and "torch" in resolved
    log = read_log(finished)
    steps = [entry for entry in log if "selection" not in entry]
    assert [entry["phase"] for entry in steps] == ["base"] * 8 + ["graph"] * 8 + ["bias"] * 8
    assert all("graph" in entry for entry in steps if entry["phase"] == "graph")
    assert len([entry for entry in log if "selection" in entry]) == 4  # before, and after each phase
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_saved_models_load_and_have_their_phase_s_parts(finished: Path):
    for name, phase in PHASES.items():
        stored = load_model(finished / name)
        settings = stored.network().settings
        assert (settings.graph, settings.bias) == (phase.graph, phase.bias)
        assert stored.config.training["phase"] == name and stored.config.backbone_fingerprint == "toy"


def test_saved_models_have_scores_that_are_probabilities(finished: Path, photos: Path, data):
    """Fitted on the validation data to the weights that were kept, in every way a model is used."""
    for name in PHASES:
        stored = load_model(finished / name)
        assert stored.config.calibration is not None
        samples = Samples.together(both_ways(stored.network(), data, store(photos / "cache"), episodes=2).values())
        fitted = fit_balanced(samples)
        assert fitted is not None and Calibration.from_dict(stored.config.calibration) == fitted
        assert reliability(fitted.probability(samples.features), samples.right).error < 0.1


def test_without_validation_data_there_is_no_calibration(photos: Path, data, tmp_path: Path):
    train(training(2, phases=(PHASES["base"],), initialisation="matching"), data, store(photos / "cache"), tmp_path)
    assert load_model(tmp_path / "base").config.calibration is None


def test_running_again_changes_nothing(finished: Path, photos: Path, data):
    files = [finished / name for name in ("log.jsonl", "bias/config.json", "bias/model.safetensors")]
    before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
    train(training(8, initialisation="matching"), data, store(photos / "cache"), finished, validation=data)
    assert [(file.read_bytes(), file.stat().st_mtime_ns) for file in files[1:]] == before[1:]
    assert files[0].read_bytes() == before[0][0]


def test_killed_at_any_moment_it_continues_as_if_nothing_had_happened(finished: Path, photos: Path, tmp_path: Path):
    folder = tmp_path / "killed"
    command = [sys.executable, str(RUN), str(folder), str(photos), "8"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    wanted = 13  # lines of the log: in the middle of the second phase, between two checkpoints
    process = subprocess.Popen([*command, "0.05"], env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        log = folder / "log.jsonl"
        if log.exists() and log.read_text().count("\n") >= wanted:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert read_log_lines(folder) < len(read_log(finished))
    subprocess.run([*command, "0"], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=240)
    assert read_log(folder) == read_log(finished)
    for name in PHASES:
        mine, whole = load_model(folder / name).head, load_model(finished / name).head
        assert all(torch.equal(mine[key], whole[key]) for key in whole)
        assert (folder / name / "config.json").read_text() == (finished / name / "config.json").read_text()


def read_log(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def read_log_lines(folder: Path) -> int:
    return (folder / "log.jsonl").read_text().count("\n")


def test_two_processes_follow_the_curve_of_one(photos: Path, tmp_path: Path):
    curves = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        launch = [sys.executable]
        if processes == 2:
            launch += ["-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1"]
            launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [*launch, str(RUN), str(folder), str(photos), "17", "0"], env=environment, check=True, timeout=400
        )
        curves.append(read_log(folder))
    assert len(curves[0]) == len(curves[1]) >= 51
    for alone, shared in zip(*curves, strict=True):
        assert alone.keys() == shared.keys()
        for name in alone.keys() - {"phase", "step"}:
            # percentages of a validation move in steps, when a point crosses a threshold
            tolerance = 1.0 if "selection" in alone else 2e-3
            assert shared[name] == pytest.approx(alone[name], abs=tolerance), (alone["phase"], alone["step"], name)


def test_an_overfitted_network_is_right(photos: Path, data, tmp_path: Path):
    """A handful of objects, seen again and again, are located within a tenth of the box."""
    few = data.subset([0])
    phase = replace(PHASES["base"], epochs=1, learning_rate=2e-3, warmup=20, decay="cosine", heatmap_loss_weight=0.1)
    episodes = EpisodeSettings(
        steps_per_epoch=350, views=1, augment=replace(EpisodeSettings().augment, scale=0.0, rotation=0.0)
    )
    wide = replace(NETWORK, width=64, heads=4, ffn=96, encoder_layers=2)
    settings = training(phases=(phase,), network=wide, episodes=episodes, batch=8, ema=0.0, save_every=1000)
    network = train(settings, few, store(photos / "cache"), tmp_path / "run")
    drawn, _ = protocol_episodes(few, shots=1, episodes=5)
    result = evaluate(few, drawn, {"refined": final(ModelMethod(network))}, store(photos / "cache"))["refined"]
    assert result.metrics()["PCK@0.1"] > 0.99


# --- phases ------------------------------------------------------------------------------------------------------


def test_frozen_modules_are_frozen_and_in_eval_mode():
    network = Network(replace(NETWORK, dropout=0.1))
    Objective(network, PHASES["bias"], ToyBackbone()).train()
    for name, module in network.named_children():
        frozen = name in ("pose_graph", "image_proj", "keypoint_proj")
        assert module.training != frozen, name
        assert all(parameter.requires_grad != frozen for parameter in module.parameters()), name


def test_freezing_what_is_not_there():
    fixed = Network(replace(NETWORK, graph="fixed"))
    assert len(Objective(fixed, replace(PHASES["bias"], graph="fixed", graph_loss="off"), ToyBackbone()).frozen) == 2
    with pytest.raises(SettingsError, match="wings"):
        Objective(fixed, replace(PHASES["base"], freeze=("wings.",)), ToyBackbone())


def test_a_phase_adds_parts_and_keeps_the_rest():
    settings = training()
    base = Network(replace(NETWORK, graph="fixed", bias="off"))
    grown = enter_phase(base, settings, 1)
    assert grown.pose_graph is not None and grown.pose_graph.c.item() == 0
    for name, value in base.state_dict().items():
        assert torch.equal(grown.state_dict()[name], value)


def test_adopting_foreign_weights_is_an_error():
    network = Network(replace(NETWORK, graph="fixed", bias="off"))
    state = network.state_dict()
    state.pop("decoder.norm.weight")
    with pytest.raises(EdgeCapeError, match="decoder.norm.weight"):
        adopt(network, state)


@pytest.mark.parametrize(
    ("prior", "bias", "graph_loss"),
    [
        ("none", "off", "off"),
        ("fixed", "markov", "off"),
        ("predicted", "shortest_path", "off"),
        ("predicted", "shortest_path", "masked"),
        ("predicted", "off", "gcn"),
    ],
)
def test_ablations_are_settings(data, photos, tmp_path, prior, bias, graph_loss):
    phase = replace(PHASES["base"], name="only", graph=prior, bias=bias, graph_loss=graph_loss, epochs=1)
    network = train(training(2, phases=(phase,)), data, store(photos / "cache"), tmp_path / "run")
    assert (network.settings.graph, network.settings.bias) == (prior, bias)


def test_members_begin_at_the_same_start_and_are_averaged(data, photos, tmp_path):
    phase = replace(PHASES["base"], epochs=1, learning_rate=1e-3, warmup=0)
    idle = replace(phase, name="idle", learning_rate=1e-30)  # only makes the next phase see the second epoch's episodes

    def trained(folder: str, *phases: PhaseSettings) -> dict[str, Tensor]:
        settings = training(3, phases=phases, initialisation="matching")
        return train(settings, data, store(photos / "cache"), tmp_path / folder).state_dict()

    first, second = trained("first", phase), trained("second", idle, phase)
    both = trained("both", replace(phase, soup=2))
    assert any(not torch.equal(first[name], second[name]) for name in first)
    for name, value in both.items():
        torch.testing.assert_close(value, (first[name] + second[name]) / 2, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("lost", [3, 4, 6])  # in the first member, at the start of the second, in the second
def test_a_run_that_breaks_off_among_members_goes_on(data, photos, tmp_path, monkeypatch, lost):
    phase = replace(PHASES["base"], epochs=1, learning_rate=1e-3, warmup=0, soup=2)
    settings = training(4, phases=(phase,), initialisation="matching", save_every=1)
    whole = train(settings, data, store(photos / "cache"), tmp_path / "whole").state_dict()
    plain = PhaseTrainer._step

    def breaks(self: PhaseTrainer, step: int, *rest: object) -> dict[str, float]:
        if step == lost:
            raise KeyboardInterrupt
        return plain(self, step, *rest)

    monkeypatch.setattr(PhaseTrainer, "_step", breaks)
    with pytest.raises(KeyboardInterrupt):
        train(settings, data, store(photos / "cache"), tmp_path / "broken")
    monkeypatch.undo()
    resumed = train(settings, data, store(photos / "cache"), tmp_path / "broken").state_dict()
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())
    assert read_log(tmp_path / "broken") == read_log(tmp_path / "whole")


def test_matching_alone_moves_no_decoder(data, photos, tmp_path):
    phase = replace(PHASES["base"], epochs=1, learning_rate=1e-3, warmup=0, match_only=True, heatmap_loss_weight=1.0)
    settings = training(2, phases=(phase,), initialisation="matching", weight_decay=0.0)
    network = train(settings, data, store(photos / "cache"), tmp_path / "run")
    before = first_network(settings, data, store(photos / "cache"), None).state_dict()
    moved = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert moved and not any(name.startswith("decoder.") for name in moved)
    log = read_log(tmp_path / "run")
    assert all(entry.keys() == {"phase", "step", "similarity"} for entry in log)
    flat = replace(settings, phases=(replace(phase, heatmap_sharpness=1e-6),))
    train(flat, data, store(photos / "cache"), tmp_path / "flat")
    cells = 8 * 8  # of the toy backbone
    flattened = read_log(tmp_path / "flat")[0]["similarity"]
    assert flattened == pytest.approx(math.log(cells), abs=1e-3) != log[0]["similarity"]


# --- bad settings fail at once -----------------------------------------------------------------------------------


def test_unknown_recipe():
    with pytest.raises(SettingsError, match="paper, small"):
        recipe("large")
    for name in RECIPES:
        recipe(name).check()


def test_the_paper_s_recipe_is_the_paper_s():
    settings = recipe("paper")
    assert [phase.epochs for phase in settings.phases] == [100, 100, 100]
    assert all(phase.learning_rate == 1e-5 and phase.warmup == 1000 for phase in settings.phases)
    assert settings.batch == 16 and settings.optimiser == "adam"
    assert settings.phases[1].mask_ratio == 0.5 and settings.phases[1].graph_loss_weight == 1.0
    assert settings.phases[2].freeze == ("pose_graph.", "image_proj.", "keypoint_proj.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phases": (PHASES["bias"],)}, "earlier phase"),
        ({"phases": ()}, "no phase"),
        ({"phases": (replace(PHASES["base"], graph_loss="masked"),)}, "supervises"),
        ({"phases": (replace(PHASES["base"], epochs=0),)}, "epoch"),
        ({"phases": (replace(PHASES["base"], soup=0),)}, "a soup"),
        ({"phases": (replace(PHASES["base"], match_only=True),)}, "heatmap_loss_weight"),
        ({"phases": (replace(PHASES["base"], heatmap_sharpness=0.0),)}, "heatmap_sharpness"),
        ({"phases": (PHASES["graph"], PHASES["base"])}, "drops the graph"),
        ({"batch": 0}, "at least 1"),
        ({"episodes": EpisodeSettings(shots=(40,))}, "fewer shots"),
        ({"episodes": EpisodeSettings(views=1, self_supervised=0.5)}, "two views"),
    ],
)
def test_contradictions(data, photos, tmp_path, change, message):
    with pytest.raises(EdgeCapeError, match=message):
        train(training(2, **change), data, store(photos / "cache"), tmp_path / "run")
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_a_folder_with_another_run(data, photos, tmp_path):
    train(training(1), data, store(photos / "cache"), tmp_path / "run")
    with pytest.raises(SettingsError, match="other settings"):
        train(training(2), data, store(photos / "cache"), tmp_path / "run")
    with pytest.raises(SettingsError, match="other data"):
        train(training(1), data.subset([0]), store(photos / "cache"), tmp_path / "run")


def test_a_full_disk(data, photos, tmp_path, monkeypatch):
    usage = type("usage", (), {"free": 10 << 20})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(SettingsError, match="10 MiB free"):
        train(training(1), data, store(photos / "cache"), tmp_path / "run")


def test_a_loss_that_is_no_number(data, photos, tmp_path):
    phase = replace(PHASES["base"], epochs=1, learning_rate=1e20, warmup=0)
    with pytest.raises(EdgeCapeError, match="learning rate"):
        train(training(30, phases=(phase,)), data, store(photos / "cache"), tmp_path / "run")


def test_two_trainings_of_one_process_may_differ_in_precision(photos: Path, data, tmp_path: Path, monkeypatch):
    """Rounded products change the losses a little, and nothing else."""
    monkeypatch.setattr("edgecape.model.precision.bfloat16_is_fast", lambda device_type: True)  # or not so fast
    losses = {}
    for precision in ("no", "bf16", "no"):
        folder = tmp_path / f"{precision}-{len(losses)}"
        settings = replace(training(2), mixed_precision=precision)
        train(replace(settings, phases=settings.phases[:1]), data, store(photos / "cache"), folder)
        (entry, *_) = (one for one in read_log(folder) if "proposal_loss" in one)
        losses.setdefault(precision, []).append(entry["proposal_loss"])
    assert losses["no"][0] == losses["no"][1] != losses["bf16"][0]
    assert losses["bf16"][0] == pytest.approx(losses["no"][0], rel=0.05)


def test_an_open_graph_begins_elsewhere_and_all_else_where_it_does_in_the_paper(data, photos, tmp_path):
    phases = (replace(PHASES["graph"], freeze=()),)
    reference, opened = (
        first_network(training(1, phases=phases, initialisation=start), data, store(photos / "cache"), None)
        for start in ("reference", "open")
    )
    state, other = reference.state_dict(), opened.state_dict()
    assert state.pop("pose_graph.c") == 0 and other.pop("pose_graph.c") > 0
    assert state.keys() == other.keys() and all(torch.equal(state[name], other[name]) for name in state)
    goes_on = training(1, phases=phases, initialisation="open")
    trained = first_network(goes_on, data, store(photos / "cache"), reference.state_dict())
    assert trained.state_dict()["pose_graph.c"] == 0  # what was learned stays


def test_a_graph_that_begins_as_the_prior_has_no_gradient_and_one_that_begins_open_has(data, photos, tmp_path):
    """With c and b at 0, edges that were not drawn have no gradient."""
    network = first_network(training(1, phases=(PHASES["graph"],)), data, store(photos / "cache"), None)
    prior = torch.eye(5)[None].roll(1, -1)
    prior = prior + prior.mT
    for c, alive in ((0.0, False), (0.5, True)):
        refined = torch.rand(1, 5, network.settings.width, requires_grad=True)
        with torch.no_grad():
            network.pose_graph.c.fill_(c)
        weights = network.pose_graph.weigh(prior, refined, torch.ones(1, 5, dtype=torch.bool))
        network.zero_grad()
        (weights * (prior == 0)).sum().backward()
        assert (network.pose_graph.c.grad != 0).item() == alive and (refined.grad != 0).any().item() == alive
