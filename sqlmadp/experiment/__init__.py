"""The four experiments of section 6 of [PWFM21], and one on misreporting, for every mechanism.

No data of yours is read.

    instances    what is run, and random sets of workloads by the paper's description
    nonlinear    means and percentiles, whose errors are simulated
    misreport    what an analyst gains by handing in other queries than they want answered
    run          what each mechanism gives on all instances, in parallel, kept as they come
    show         the measures as tables, figures and box plots (SVG)
    compare      mechanisms on plain matrices
    processes    processes that share work out

[PWFM21] Pujol, Wu, Fain, Machanavajjhala, doi:10.14778/3467861.3467870.
"""
