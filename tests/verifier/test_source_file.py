"""The structure of source files: functions, calls, and where tasks leave a loop or function."""

from __future__ import annotations

from mlusim.verifier.source_file import source_file

CPP = """struct Tile {
  Tile(int n) : rows(n), columns(half(n)) {
    clear();
  }
  void load(float *to) const {
    copy(to);
  }
  auto size() const noexcept(sizeof(int) > 2) -> decltype(1 + 2) {
    return 1;
  }
  int end() && override final { return 2; }
};
void kernel(int n) {
  if constexpr (N > 4) {
    clear();
  }
  try { clear(); } catch (int) {
  }
  if (tile(n)->ok(2)) {
    for (int i = 0; i < n; ++i) {
      switch (n) {
        case FIRST(1): if (n) { break; }
      }
      if (i == 1)
        continue;
      if (i > 3) break;
      clear();
    }
  }
}
"""


def test_functions_and_exits_of_cpp(tmp_path):
    (tmp_path / "tile.mlu").write_text(CPP)
    source = source_file(str(tmp_path / "tile.mlu"))
    assert source.functions == (
        ((2, 4), "Tile"),
        ((5, 7), "load"),
        ((8, 10), "size"),
        ((11, 11), "end"),
        ((13, 30), "kernel"),
    )
    names = {name for _, name in source.calls}
    assert {"clear", "copy", "half", "tile", "ok"} <= names
    assert names.isdisjoint({"constexpr", "catch", "noexcept", "decltype", "kernel", "load"})
    loop = 20, 28
    assert source.exits == ((9, (8, 10)), (11, (11, 11)), (22, (21, 23)), (25, loop), (26, loop))
    assert source.continues == (25,)
    # Tasks may leave the iteration before the call at its end.
    assert source.line_passed_by_all(20, 27) == 24
    assert not source.is_passed_every_iteration(loop, 27)
    assert source.is_passed_every_iteration(loop, 21)
