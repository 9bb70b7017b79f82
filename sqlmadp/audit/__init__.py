"""Audits: attempts to see a record through the noise, which must fail.

    cases      strategies that mechanisms select, and pairs of neighbouring tables
    counted    the same for tables of records, counted by an engine: many per person, wide columns
    sample     many measurements of each table, through `private.measure.noisy_answers`
    bound      the event that tells the tables apart best, and what it proves of epsilon
    freshness  noise is never the same twice, in one process or in several
    messages   no failure, and no text, depends on a record
    report     what all of them found, with the power of the audit itself

An audit can only show that a promise is broken, never that it is kept; PROOF.md is for that.
"""
