"""The report of a run as one HTML page that opens without a network.

The data of a chart are Python numbers, which tests compare with the log. plotly's JavaScript bundle, embedded in the
page, draws them in the browser.

Pages:
  html, pages              the page of a run; several runs with an index
  difference               diff.html, two runs on one page
  sections, parts          the sections of a run's page; elements of all pages
  footer, embed            the origin of the figures; data and scripts inside a page

Charts:
  charts                   plotly's charts; `roofline`, `occupancy`, `tensors`: their data
  timeline, tiles          the timeline and the tile map, which page.js draws
  source                   the kernel's source with the cost of each line
"""
