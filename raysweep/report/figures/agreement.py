"""The figure of the experiment against the closed form: how far each cell lies from it."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raysweep.analyses.finding import Finding
from raysweep.analyses.kinds.agreement import AgreementPlot
from raysweep.fits.statistics import LEVEL, t_quantile
from raysweep.phrases import counted
from raysweep.report.figures import drawing, scales
from raysweep.report.figures.style import FAINT, FIT, QUALITATIVE
from raysweep.report.names import axis_label, called
from raysweep.workloads.declaration import Workload


@drawing.draw.register(AgreementPlot)
def draw_agreement(plot: AgreementPlot, finding: Finding, workload: Workload) -> tuple[Figure, str]:
    """The distance of each cell's mean from theory in its standard errors, over theory, and the caption."""
    table = plot.table[np.isfinite(plot.table["z"].astype(float))]
    theory, draws = table["theory"].to_numpy(float), table["draws"].to_numpy()
    figure, (panel,) = drawing.panels(1)
    if width := scales.asinh_width(theory):
        scales.set_asinh(panel.xaxis, theory, width)
    limit = t_quantile(LEVEL, int(np.median(draws)) - 1)
    panel.axhspan(-limit, limit, color=FAINT, alpha=0.15, linewidth=0)
    panel.axhline(0, color=FIT, linewidth=1.0)
    panel.plot(theory, table["z"], "o", color=QUALITATIVE[0], markersize=4, alpha=0.65, rasterized=len(table) > 2000)
    panel.set_xlabel(f"theory of {axis_label(plot.metric, workload)}")
    panel.set_ylabel("above theory (standard errors)")
    caption = (
        f"How far the mean over {counted(int(np.median(draws)), 'draw')} of {called(plot.metric, workload)} lies above "
        f"theory in each cell. Grey: where {100 * LEVEL:g} % of cells lie if theory is right. Cells share their draws."
    )
    return figure, caption
