"""Audits: attempts to see a record through the noise, which must fail.

    cases      strategies that mechanisms select, and pairs of neighbouring tables
    counted    the same for tables of records, counted by an engine: many per person, wide columns
    bound      the event that tells the tables apart best, and what it proves of epsilon
    leaks      noise is never the same twice, and no message depends on a record
    report     every case measured many times, what was found, and the power of the audit itself

An audit can only show that a promise is broken, never that it is kept; PROOF.md is for that.
"""
