"""The report of a run as one HTML page that opens without a network.

`html.page` writes it; the other modules compute the numbers of one chart each, as Python numbers that tests compare
with the log. plotly's JavaScript bundle, embedded in the page, draws them in the browser.
"""
