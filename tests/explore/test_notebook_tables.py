"""A sweep and a tuning show their tables in a notebook."""

import mlusim


def test_a_sweep_shows_its_table():
    swept = mlusim.sweep("reverse", shape=[64, 128], axis=[0, 1], workers=0)
    shown = swept._repr_html_()
    assert "sweep of 4 points: 2 done, 2 impossible" in shown
    assert ">shape_0<" in shown
    assert ">128<" in shown
    assert f">{swept.done[0]['time_us']:.2f} us<" in shown
    assert "axis=1 of a tensor of rank 1" in shown
    many = mlusim.explore.Sweep([])
    many.rows = swept.rows * 20
    assert "... and 20 more points; rows and table() have all" in many._repr_html_()


def test_a_tuning_shows_its_table():
    tuned = mlusim.tune("reverse", shape=64, axis=0, workers=0)
    shown = tuned._repr_html_()
    assert "reverse on mlu370-x4, the fastest first" in shown
    assert ">best<" in shown
    assert f">{tuned.rows[-1]['time_us']:.2f} us<" in shown
