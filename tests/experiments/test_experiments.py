"""Every experiment on a tiny set: its tables are what the results say, its figures show what they claim."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import numpy as np
import pytest

from edgecape.errors import DataError, SettingsError
from edgecape.evaluation.results import difference
from edgecape.experiments import (
    bias,
    components,
    graph_change,
    graphs,
    learning,
    mask_ratio,
    occlusion,
    predictor,
    qualitative,
    tables,
)
from edgecape.experiments import (
    lab as lab_module,
)
from edgecape.experiments.arms import BOTH, FIXED, NONE, PREDICTED, Arm
from edgecape.experiments.catalogue import EXPERIMENTS
from edgecape.experiments.experiment import section_of
from edgecape.experiments.lab import Condition, Lab, graphs_of
from edgecape.experiments.options import NAMES, digest
from edgecape.experiments.priors import AS_GIVEN, FULL, SELF_LOOPS, WRONG, wrong_name
from edgecape.experiments.section import Section, Table, Value
from edgecape.io.locks import WAIT, holder_of

MakeLab = Callable[..., Lab]


def made(name: str, lab: Lab) -> Section:
    return section_of(EXPERIMENTS[name], lab, f"edgecape experiment {name}")


def mean(table: Table, row: str, column: str) -> float:
    cell = table.column(column)[row]
    assert isinstance(cell, Value), cell
    return cell.mean


def score(lab: Lab, arm: Arm, condition: Condition, metric: str = "mPCK@5") -> float:
    """In per cent, mean over seeds, from the results themselves."""
    results = lab.measure([arm], [condition])[condition][arm.name]
    return 100 * float(np.mean([result.metrics()[metric] for result in results]))


def test_the_catalogue_has_what_the_command_line_offers() -> None:
    assert list(EXPERIMENTS) == list(NAMES)
    assert len(EXPERIMENTS) == 18


def test_benchmark(lab: MakeLab) -> None:
    world = lab(methods=("pomnet",))
    section = made("benchmark", world)
    one, gaps, five, _, published = section.tables
    assert [row[0] for row in one.rows] == ["copy support", "none", "fixed", "predicted + bias", "pomnet"]
    assert one.columns[1:] == ("PCK@0.05", "PCK@0.1", "PCK@0.2", "mPCK@4", "mPCK@5", "AUC", "NME")
    for arm in (NONE, FIXED, BOTH):
        for table, shots in ((one, 1), (five, 5)):
            assert mean(table, arm.name, "mPCK@5") == pytest.approx(score(world, arm, Condition(shots)))
    for row in one.rows:
        for cell in row[1:]:
            assert isinstance(cell, Value) and cell.low is not None and cell.low <= cell.mean + 1e-9
            assert (cell.spread is None) == (row[0] == "copy support")  # the others were trained twice
    assert mean(gaps, "fixed − none", "mPCK@5, other photos") == pytest.approx(
        mean(one, "fixed", "mPCK@5") - mean(one, "none", "mPCK@5")
    )
    assert published.column("mPCK@5, 1 shot")["EdgeCape (DINOv2-S)"] == "77.72"
    drawn = section.figures[0].data
    assert drawn["1-shot"]["fixed"] == pytest.approx(mean(one, "fixed", "mPCK@5"))
    assert list(drawn) == ["1-shot", "5-shot"]


def test_components(lab: MakeLab) -> None:
    section = made("components", lab())
    measured, gaps = section.tables
    assert [row[0] for row in measured.rows] == ["fixed", "fixed + bias", "predicted", "predicted + bias"]
    assert [row[-1] for row in measured.rows] == ["79.87", "80.78", "80.76", "81.96"]
    assert gaps.column("published")["predicted + bias − fixed"] == "+2.09"
    drawn = section.figures[0].data
    assert set(drawn["fixed"]) == {"fixed", "fixed + bias"} and set(drawn["predicted"]) == {
        "predicted",
        "predicted + bias",
    }
    assert len(section.findings) == len(components.PAIRS)


def test_arms_share_their_stages(lab: MakeLab) -> None:
    world = lab()
    chains = world.chains([FIXED, PREDICTED, BOTH, *bias.ARMS, *mask_ratio.ARMS.values()])
    keys = {name: [stage.key for stage in chain] for name, chain in chains.items()}
    assert all(len(chain) == 3 for chain in keys.values())  # equal budgets
    assert keys["fixed", 0][0] == keys["predicted", 0][0] == keys["predicted + bias", 0][0]
    assert keys["predicted", 0][1] == keys["predicted + bias", 0][1] and keys["predicted", 0] != keys["predicted", 1]
    assert keys["no bias", 0] == keys["predicted", 0] and keys["Markov, 4 hops", 0] == keys["predicted + bias", 0]
    assert keys["50% hidden", 0] == keys["predicted + bias", 0]
    assert keys["20% hidden", 0][0] == keys["predicted + bias", 0][0]
    assert keys["20% hidden", 0][1] != keys["predicted + bias", 0][1]
    opened = next(arm for arm in predictor.ARMS if arm.name == predictor.OPEN)
    (begun,) = (chain for (_, seed), chain in world.chains([opened]).items() if seed == 0)
    assert [stage.key == key for stage, key in zip(begun, keys["predicted + bias", 0], strict=True)] == [
        True,
        False,
        False,
    ]


def test_learning(lab: MakeLab) -> None:
    world = lab()
    section = made("learning", world)
    (table,) = section.tables
    drawn = section.figures[0].data
    assert drawn["x"] == [2, 4, 6] and [row[0] for row in table.rows] == ["2", "4", "6"]  # 3 stages of 2 steps
    for arm in (NONE, FIXED, BOTH):
        assert drawn["lines"][arm.name][-1] == pytest.approx(score(world, arm, Condition(1)))
    assert drawn["lines"]["fixed"][0] == drawn["lines"]["predicted + bias"][0]  # the same stage
    chains = world.chains([FIXED, learning.after(FIXED, "two thirds")])
    assert chains["fixed, two thirds", 0] != chains["fixed", 0]
    assert [one.key for one in chains["fixed, two thirds", 0]] == [one.key for one in chains["fixed", 0][:2]]
    assert len(section.findings) == 3


def test_models_that_are_given_have_no_learning_curve(lab: MakeLab) -> None:
    world = lab(models=("none=somewhere",))
    assert not learning.arms(world.options)
    section = made("learning", world)
    assert not section.tables and "no training to follow" in section.notes[0]


def test_a_new_setting_that_is_not_used_does_not_make_unknown_what_was_trained() -> None:
    before = digest([{"episodes": {"views": 2, "freeze": ()}}, None])
    assert digest([{"episodes": {"views": 2, "freeze": (), "shares": {}}}, None]) == before
    assert digest([{"episodes": {"views": 2, "freeze": (), "shares": {"solids": 0.3}}}, None]) != before
    assert digest([{"episodes": {"views": 2}}, None]) != before


@pytest.mark.parametrize("name", ["supervision", "predictor"])
def test_variants_of_the_predictor(name: str, lab: MakeLab) -> None:
    world = lab()
    section = made(name, world)
    measured, gaps = section.tables
    arms = EXPERIMENTS[name].arms(world.options)
    assert [row[0] for row in measured.rows] == [arm.name for arm in arms]
    assert len(gaps.rows) == len(arms) - 1 and any(row[-1] for row in gaps.rows)  # a published one beside
    (drawn,) = section.figures[0].data.values()
    metric = "PCK@0.2" if name == "supervision" else "mPCK@5"
    assert drawn == pytest.approx({arm.name: mean(measured, arm.name, metric) for arm in arms})


def test_mask_ratio(lab: MakeLab) -> None:
    section = made("mask-ratio", lab())
    drawn = section.figures[0].data
    assert drawn["x"] == [100 * ratio for ratio in mask_ratio.RATIOS]
    expected = [mean(section.tables[0], arm.name, "mPCK@5") for arm in mask_ratio.ARMS.values()]
    assert drawn["lines"] == {"predicted + bias": pytest.approx(expected)}


def test_bias(lab: MakeLab) -> None:
    section = made("bias", lab())
    drawn = section.figures[0].data
    assert drawn["x"] == list(bias.HOPS)
    assert drawn["levels"]["no bias"] == pytest.approx(mean(section.tables[0], "no bias", "mPCK@5"))
    assert drawn["levels"]["shortest path"] == pytest.approx(mean(section.tables[0], "shortest path", "mPCK@5"))
    models = [lab().model(arm, 0).network.settings for arm in bias.ARMS]
    assert [(one.bias, one.hops) for one in models[1:3]] == [("shortest_path", 4), ("markov", 1)]


def test_noisy_prior(lab: MakeLab) -> None:
    world = lab()
    section = made("noisy-prior", world)
    (table,) = section.tables
    drawn = section.figures[0].data
    assert drawn["x"] == [0, *WRONG]
    for arm in (FIXED, BOTH):
        curve = [score(world, arm, Condition(1, wrong_name(n))) for n in (0, *WRONG)]
        assert drawn["lines"][arm.name] == pytest.approx(curve)
    assert list(drawn["levels"].values()) == pytest.approx([score(world, NONE, Condition(1))])
    found = world.measure([FIXED], [Condition(1), Condition(1, wrong_name(8))])
    pair = [found[Condition(1, name)]["fixed"] for name in (wrong_name(8), AS_GIVEN)]
    expected = difference(*pair, tables.everything(pair[0]))[0]
    cell = table.column("change of fixed")[wrong_name(8)]
    assert isinstance(cell, Value)
    assert (cell.mean, cell.low, cell.high) == pytest.approx(
        tuple(100 * part["mPCK@5"] for part in (expected.mean, expected.low, expected.high))
    )


def test_no_prior(lab: MakeLab) -> None:
    world = lab()
    section = made("no-prior", world)
    drawn = section.figures[0].data
    assert list(drawn) == ["no graph", AS_GIVEN, SELF_LOOPS, FULL]
    for name in (SELF_LOOPS, FULL):
        for arm in (FIXED, BOTH):
            assert drawn[name][arm.name] == pytest.approx(score(world, arm, Condition(1, name)))
    assert [row[-1] for row in section.tables[0].rows if row[-1]] == ["+1.29"]


def test_occlusion(lab: MakeLab) -> None:
    world = lab()
    section = made("occlusion", world)
    drawn = section.figures[0].data
    assert drawn["x"] == [100 * share for share in occlusion.SHARES]
    for arm in (NONE, FIXED, BOTH):
        curve = [score(world, arm, Condition(1, cover=share), "PCK@0.2") for share in occlusion.SHARES]
        assert drawn["lines"][arm.name] == pytest.approx(curve)
    assert [row[0] for row in section.tables[0].rows] == ["0%", "15%", "30%", "45%", "60%"]
    plain, covered = (world.measure([NONE], [one])[one]["none"][0] for one in (Condition(1), Condition(1, cover=0.6)))
    assert not np.allclose(plain.distance, covered.distance, equal_nan=True)
    assert np.array_equal(np.isnan(plain.distance), np.isnan(covered.distance))  # what is covered still counts


def test_backbones(lab: MakeLab) -> None:
    section = made("backbones", lab())
    assert [row[0] for row in section.tables[0].rows] == [
        f"DINOv2-S, {layers}: {arm}"
        for layers in ("last layer", "layers 8, 10 and 12")
        for arm in ("none", "fixed", "predicted + bias")
    ]
    assert list(section.figures[0].data) == ["DINOv2-S, last layer", "DINOv2-S, layers 8, 10 and 12"]


def test_single_category(lab: MakeLab) -> None:
    world = lab()
    section = made("single-category", world)
    assert section.tables[0].title == "furniture, 7 keypoints, 2 categories"
    pairs = ["fixed − none", "predicted + bias − fixed", "predicted + bias − none"]
    assert [row[0] for row in section.tables[1].rows] == pairs and len(section.findings) == 3
    ((kept, held),) = EXPERIMENTS["single-category"].check(world).values()  # type: ignore[attr-defined]
    assert [category.name for category in kept.categories] == [category.name for category in held.categories]
    photos = [{instance.image for instance in part.instances} for part in (kept, held)]
    assert not photos[0] & photos[1] and len(held.instances) == 4 and len(kept.instances) == 16


def test_super_category(lab: MakeLab) -> None:
    world = lab()
    section = made("super-category", world)
    (table,) = section.tables
    assert [row[0] for row in table.rows] == ["furniture", "vehicle"]
    assert table.rows[0][-1] == "52.5, 45.6, 54.0"
    parts = EXPERIMENTS["super-category"].check(world)
    rest, held = parts["vehicle"]  # type: ignore[index]
    assert [category.name for category in held.categories] == ["light"] and len(rest.categories) == 3
    assert section.figures[0].data["vehicle"]["none"] == pytest.approx(mean(table, "vehicle", "none"))


def test_graph_change(lab: MakeLab) -> None:
    world = lab()
    section = made("graph-change", world)
    drawn = section.figures[0].data
    assert list(drawn["counts"]) == ["annotated", "self-loops", "fully connected"]
    entries = {row[0]: int(str(row[1])) for row in section.tables[0].rows}
    assert {name: sum(count) for name, count in drawn["counts"].items()} == entries
    benchmark = world.benchmark(1)
    graphs_ = [
        one
        for seed in world.seeds(BOTH)
        for one in graphs_of(world.model(BOTH, seed), benchmark.dataset, benchmark.episodes, AS_GIVEN)
    ]
    assert entries["annotated"] == sum(int(one.visible.sum()) ** 2 for one in graphs_)
    assert section.figures[0].svg.count("stroke-dasharray") >= 3  # a line at no change in each panel


def test_a_graph_that_keeps_its_prior_has_not_changed(lab: MakeLab) -> None:
    world = lab()
    world.prepare([FIXED])
    benchmark = world.benchmark(1)
    kept = graphs_of(world.model(FIXED, 0), benchmark.dataset, benchmark.episodes, FULL)
    assert graph_change.changes_of(kept) == pytest.approx(0) and graph_change.kept_share(kept) == pytest.approx(100)


def test_graphs(lab: MakeLab) -> None:
    world = lab()
    section = made("graphs", world)
    assert [figure.title for figure in section.figures] == [
        "input and predicted graph",
        "one category, different objects",
        "one photo, different priors",
    ]
    hidden = section.figures[1].data["hidden"]
    assert hidden[-1] and not hidden[0]  # the last one hides a keypoint
    last = section.figures[1].data["objects"][-1]
    (graph,) = (
        graphs_of(
            world.model(BOTH, 0),
            world.measured,
            [next(e for e in world.benchmark(1).episodes if last in e.supports)],
            FULL,
        )
        if any(last in e.supports for e in world.benchmark(1).episodes)
        else (None,)
    )
    if graph is not None:
        assert graph.normalised[hidden[-1][0]].sum() == 0
    assert all(figure.picture for figure in section.figures)


def test_qualitative(lab: MakeLab) -> None:
    world = lab()
    section = made("qualitative", world)
    first, last = (world.measure([arm], [Condition(1)])[Condition(1)][arm.name][0] for arm in (NONE, BOTH))
    chosen = qualitative.chosen_pairs(first, last)
    assert list(chosen) == ["best", "median", "worst", "gains most", "loses most"] and len(set(chosen.values())) == 5
    assert [figure.title for figure in section.figures] == list(chosen)
    error = last.per_pair()["NME"]
    assert error[chosen["best"]] == error.min()
    for figure, row in zip(section.figures, chosen.values(), strict=True):
        assert figure.data["pair"] == last.pairs[row].tolist()
        assert figure.data["NME"]["predicted + bias"] == pytest.approx(error[row], abs=1e-6)


def test_without_photos_nothing_of_the_data_is_shown(lab: MakeLab) -> None:
    with_photos, without = (made("graphs", lab(photos=photos)) for photos in (True, False))
    assert len(without.figures[0].picture) < 0.8 * len(with_photos.figures[0].picture)


def test_comparison(lab: MakeLab) -> None:
    world = lab()
    section = made("comparison", world)
    published, here = section.figures[0].data.values()
    assert published["EdgeCape (DINOv2-S)"][:2] == [89.42, 91.87] and "X-Pose" not in published
    assert published["SDPNet"][2] is None and published["EdgeCape (DINOv2-S)"][2] > published["GraphCape (DINOv2-S)"][2]
    assert here["fixed"][:2] == pytest.approx([score(world, FIXED, Condition(n), "PCK@0.2") for n in (1, 5)])


def test_what_does_not_go_together_is_said_before_anything_is_computed(lab: MakeLab) -> None:
    with pytest.raises(SettingsError, match="there is no method 'edgecap'; did you mean 'edgecape'"):
        EXPERIMENTS["benchmark"].arms(lab(methods=("edgecap",)).options)
    with pytest.raises(DataError, match="has the 21 objects"):
        lab(shots=(20,)).check([NONE])
    with pytest.raises(SettingsError, match="give ARM=FOLDER"):
        lab(models=("fixed",))
    with pytest.raises(SettingsError, match="must be at least 1"):
        lab(seeds=0)
    with pytest.raises(DataError, match="none fits"):
        lab(split="test").check([NONE])


def test_seeds_of_another_machine_are_the_same_trainings(lab: MakeLab) -> None:
    here = Condition(1)
    both = lab().measure([FIXED], [here])[here]["fixed"]
    world, said = lab(seeds=1, first_seed=1), list[str]()
    world.say = said.append
    (second,) = world.measure([FIXED], [here])[here]["fixed"]
    assert not said  # it was there
    np.testing.assert_array_equal(second.distance, both[1].distance)
    assert section_of(EXPERIMENTS["components"], world, "").done["budget"].endswith("seed 1")
    with pytest.raises(SettingsError, match="first-seed is -1"):
        lab(first_seed=-1)


def test_a_given_model_is_used_and_one_of_another_method_refused(lab: MakeLab) -> None:
    world = lab()
    world.prepare([FIXED])
    folder = world.chains([FIXED])["fixed", 0][-1].model
    given = lab(models=(f"fixed={folder}",))
    assert list(given.seeds(FIXED)) == [0] and not given.chains([FIXED])
    assert given.on(given.train, given.measured).chains([FIXED])  # it may know what is held out there
    with pytest.raises(SettingsError, match="is a model with graph 'fixed' and bias 'off'; arm 'predicted' has"):
        lab(models=(f"predicted={folder}",)).check([PREDICTED])


def test_graphs_need_a_skeleton(lab: MakeLab) -> None:
    world = lab()
    bare = [c.__class__(**{**c.__dict__, "edges": ()}) for c in world.measured.categories]
    object.__setattr__(world.measured, "categories", tuple(bare))
    with pytest.raises(DataError, match="has a skeleton"):
        graphs.with_skeleton(world.measured)


def test_what_was_measured_needs_no_model(lab: MakeLab, tmp_path) -> None:
    """Results of another machine, without its models: nothing is trained for them, and a further arm still is."""
    here = Condition(1)
    before = lab(out=tmp_path / "one", seeds=1).measure([FIXED], [here])[here]
    shutil.copytree(tmp_path / "one/results", tmp_path / "two/results")
    world = lab(out=tmp_path / "two", seeds=1)
    after = world.measure([FIXED], [here])[here]
    assert not (tmp_path / "two/stages").exists()
    assert np.array_equal(before["fixed"][0].distance, after["fixed"][0].distance, equal_nan=True)
    world.measure([FIXED, NONE], [here])
    assert all("none" in folder.name for folder in (tmp_path / "two/stages").iterdir() if folder.is_dir())


def test_the_longest_line_of_stages_begins_first(lab: MakeLab, tmp_path, monkeypatch) -> None:
    """So that processes which share the work end together."""

    def pace(settings, dataset, store) -> float:
        return 2.0 if settings.phases[0].graph == "predicted" else 1.0

    monkeypatch.setattr("edgecape.experiments.stages.step_seconds", pace)
    world, said = lab(out=tmp_path, seeds=1), list[str]()
    monkeypatch.setattr(world, "say", said.append)
    world.prepare([NONE, BOTH])
    trained = [line.split(", bias")[0] for line in said if line.endswith(" left")]
    assert trained[:3] == ["base, graph fixed", "graph, graph predicted", "base, graph none"]
    assert len(trained) == 6


def test_a_stage_that_another_process_trains_is_waited_for(lab: MakeLab, tmp_path, monkeypatch) -> None:
    world = lab(out=tmp_path, seeds=1)
    stage = world.chains([FIXED])["fixed", 0][0]
    taken, slept = stage.lock(), []
    assert taken.take()

    def sleep(seconds: float) -> None:
        """The other one ends."""
        if seconds == WAIT:
            slept.append(seconds)
            stage.run()
            taken.release()

    monkeypatch.setattr("edgecape.io.locks.time.sleep", sleep)
    world.prepare([FIXED])
    assert len(slept) == 1 and all(one.is_done() for one in world.chains([FIXED])["fixed", 0])


def test_what_another_process_measures_is_not_measured_again(lab: MakeLab, tmp_path, monkeypatch) -> None:
    world, conditions = lab(out=tmp_path, seeds=1), [Condition(1), Condition(2)]
    other, said = lab(out=tmp_path, seeds=1), list[str]()
    world.prepare([FIXED])
    monkeypatch.setattr(world, "say", said.append)
    run = lab_module.evaluate

    def evaluated(dataset, episodes, methods, store, **rest):  # the other one comes while the first measures
        monkeypatch.setattr(lab_module, "evaluate", run)
        other.measure([FIXED], conditions[1:])
        assert any(map(holder_of, (tmp_path / "results").glob("*.lock")))
        return run(dataset, episodes, methods, store, **rest)

    monkeypatch.setattr(lab_module, "evaluate", evaluated)
    results = world.measure([FIXED], conditions)
    assert [line for line in said if "measuring" in line and "2-shot" in line] == []
    assert [len(results[one]["fixed"]) for one in conditions] == [1, 1]
