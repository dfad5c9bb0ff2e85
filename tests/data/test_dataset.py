from __future__ import annotations

from edgecape.data.dataset import joined

import toy


def test_joined_data_sets_keep_all_objects_with_their_categories(tmp_path):
    first, second = toy.lamps(tmp_path / "a", 3, ("lamp", "light")), toy.lamps(tmp_path / "b", 2, ("torch",))
    whole = joined([first, second])
    assert [category.name for category in whole.categories] == ["lamp", "light", "torch"]
    assert [len(members) for members in whole.by_category] == [3, 3, 2]
    assert [instance.index for instance in whole.instances] == list(range(8))
    assert [whole.category_of(one).name for one in whole.instances] == ["lamp"] * 3 + ["light"] * 3 + ["torch"] * 2
    assert whole.instances[6].image == second.instances[0].image
