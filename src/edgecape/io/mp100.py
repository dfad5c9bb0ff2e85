"""What MP-100 is made of: its 100 categories, and what is known of its files.

MP-100 (Pose-for-Everything, ECCV 2022) hands out annotations only. An image's `file_name` starts with a folder of
MP-100; what follows is the name in the source data set, except for CarFusion, whose images were renamed (sources.py).
Traps: the folder `amur_tiger_body` holds the human faces of AFLW; the guide's "DeepFashion" is DeepFashion2, and only
its training images; names of Keypoint-5, DeepFashion2 and OneHand10K repeat from one of their folders to the next;
frames of fly and locust are numbered by MMPose's converter, which shuffles them, not by their place in the HDF5 file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A category of MP-100."""

    id: int
    name: str
    supercategory: str
    K: int
    source: str  # key of its Source
    folder: str  # first part of its images' file names


# id, name, supercategory, keypoints, source, and the images' folder where it is not the name
_TABLE = """
  1 skirt                   clothes          8 deepfashion2
  2 horse_body              Equidae         17 ap10k
  3 dog_body                Canidae         17 ap10k
  4 fennecfox_face          animal_face      9 animalweb
  5 panda_body              Ursidae         17 ap10k
  6 hamster_body            Cricetidae      17 ap10k
  7 chipmunk_face           animal_face      9 animalweb
  8 sling_dress             clothes         19 deepfashion2
  9 panther_body            Felidae         17 ap10k
 10 klipspringer_face       animal_face      9 animalweb
 11 vest_dress              clothes         19 deepfashion2
 12 przewalskihorse_face    animal_face      9 animalweb
 13 californiansealion_face animal_face      9 animalweb
 14 Woodpecker              bird            15 cub200       woodpecker_body
 15 pig_body                Suidae          17 ap10k
 16 Wren                    bird            15 cub200       wren_body
 17 sling                   clothes         15 deepfashion2
 18 face                    person          19 aflw         amur_tiger_body
 19 arcticwolf_face         animal_face      9 animalweb
 20 cat_body                Felidae         17 ap10k
 21 bobcat_body             Felidae         17 ap10k
 22 guanaco_face            animal_face      9 animalweb
 23 fallowdeer_face         animal_face      9 animalweb
 24 dassie_face             animal_face      9 animalweb
 25 short_sleeved_shirt     clothes         25 deepfashion2
 26 elephant_body           Elephantidae    17 ap10k
 27 deer_body               Cervidae        17 ap10k
 28 Gull                    bird            15 cub200       gull_body
 29 rabbit_body             Leporidae       17 ap10k
 30 bison_body              Bovidae         17 ap10k
 31 rhino_body              Rhinocerotidae  17 ap10k
 32 car                     vehicle         13 carfusion
 33 squirrel_body           Sciuridae       17 ap10k
 34 greyseal_face           animal_face      9 animalweb
 35 gorilla_body            Hominidae       17 ap10k
 36 quokka_face             animal_face      9 animalweb
 37 camel_face              animal_face      9 animalweb
 38 bus                     vehicle         13 carfusion
 39 swivelchair             furniture       13 keypoint5
 40 face                    person          68 300w         human_face
 41 Kingfisher              bird            15 cub200       kingfisher_body
 42 sheep_body              Bovidae         17 ap10k
 43 spider_monkey_body      Cercopithecidae 17 ap10k
 44 locust                  animal          35 locust       locust_body
 45 chair                   furniture       10 keypoint5
 46 Sparrow                 bird            15 cub200       sparrow_body
 47 alpaca_face             animal_face      9 animalweb
 48 goldenretriever_face    animal_face      9 animalweb
 49 sofa                    furniture       14 keypoint5
 50 otter_body              Mustelidae      17 ap10k
 51 suv                     vehicle         13 carfusion
 52 leopard_body            Felidae         17 ap10k
 53 Tern                    bird            15 cub200       tern_body
 54 hippo_body              Hippopotamidae  17 ap10k
 55 zebra_body              Equidae         17 ap10k
 56 onager_face             animal_face      9 animalweb
 57 bonobo_face             animal_face      9 animalweb
 58 antelope_body           Bovidae         17 ap10k
 59 Grebe                   bird            15 cub200       grebe_body
 60 short_sleeved_dress     clothes         29 deepfashion2
 61 gibbons_face            animal_face      9 animalweb
 62 vest                    clothes         15 deepfashion2
 63 ferret_face             animal_face      9 animalweb
 64 long_sleeved_dress      clothes         37 deepfashion2
 65 pademelon_face          animal_face      9 animalweb
 66 fly                     animal          32 fly          fly_body
 67 trousers                clothes         14 deepfashion2
 68 fox_body                Canidae         17 ap10k
 69 olivebaboon_face        animal_face      9 animalweb
 70 skunk_body              Mephitidae      17 ap10k
 71 giraffe_body            Giraffidae      17 ap10k
 72 person                  person          17 coco         human_body
 73 lion_body               Felidae         17 ap10k
 74 germanshepherddog_face  animal_face      9 animalweb
 75 shorts                  clothes         10 deepfashion2
 76 polar_bear_body         Ursidae         17 ap10k
 77 commonwarthog_face      animal_face      9 animalweb
 78 long_sleeved_outwear    clothes         39 deepfashion2
 79 grizzlybear_face        animal_face      9 animalweb
 80 hand                    hand            21 onehand10k   human_hand
 81 bighornsheep_face       animal_face      9 animalweb
 82 capebuffalo_face        animal_face      9 animalweb
 83 short_sleeved_outwear   clothes         31 deepfashion2
 84 bed                     furniture       10 keypoint5
 85 cheetah_body            Felidae         17 ap10k
 86 Warbler                 bird            15 cub200       warbler_body
 87 cow_body                Bovidae         17 ap10k
 88 rat_body                Muridae         17 ap10k
 89 proboscismonkey_face    animal_face      9 animalweb
 90 raccoon_body            Procyonidae     17 ap10k
 91 beaver_body             Castoridae      17 ap10k
 92 macaque                 animal          17 macaquepose  macaque_body
 93 gerbil_face             animal_face      9 animalweb
 94 blackbuck_face          animal_face      9 animalweb
 95 weasel_body             Mustelidae      17 ap10k
 96 gentoopenguin_face      animal_face      9 animalweb
 97 long_sleeved_shirt      clothes         33 deepfashion2
 98 table                   furniture        8 keypoint5
 99 capybara_face           animal_face      9 animalweb
100 wolf_body               Canidae         17 ap10k
"""

KINDS = tuple(
    Kind(int(id_), name, supercategory, int(K), source, folder[0] if folder else name)
    for id_, name, supercategory, K, source, *folder in (line.split() for line in _TABLE.strip().splitlines())
)
BY_FOLDER = {kind.folder: kind for kind in KINDS}

# In the original files edges are counted from 1, only CarFusion's from 0; the edition re-annotated for GraphCape and
# EdgeCape counts from 0 throughout.
KNOWN_BASES = {kind.name: 0 for kind in KINDS if kind.source == "carfusion"}


def is_mp100(categories: Iterable[tuple[int, str]]) -> bool:
    """Whether a file's categories (id, name) are all MP-100's."""
    mine = {(kind.id, kind.name) for kind in KINDS}
    theirs = set(categories)
    return bool(theirs) and theirs <= mine


def edition(proofs: Iterable[tuple[str, int | None]]) -> str | None:
    """Which edition of MP-100 a file is, if the (category name, proven edge base) of its skeletons tell."""
    bases = {base for name, base in proofs if base is not None and name not in KNOWN_BASES}
    return {frozenset({1}): "original", frozenset({0}): "re-annotated"}.get(frozenset(bases))
