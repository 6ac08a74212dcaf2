"""The effective points of one series of many runs, as SQL that reads a few index entries for each run.

PostgreSQL cannot know how few series and attempts belong to the runs asked for. Left to itself it reads all series and
all attempts of the installation first, which takes longer than the points, so both are looked up run by run before.
"""

# Begins a statement; parameters: runs, an array of ids, and names, those that the metric may have (`naming.names_for`),
# of which the first that a run has counts. A first attempt supersedes nothing.
CHOSEN = """
WITH chosen AS MATERIALIZED (
    SELECT s.id, s.run_id FROM (SELECT DISTINCT run_id FROM unnest(%(runs)s::text[]) AS one (run_id)) AS wanted
    CROSS JOIN LATERAL (
        SELECT id, run_id FROM runs_series WHERE run_id = wanted.run_id AND metric = ANY(%(names)s::text[])
        ORDER BY array_position(%(names)s::text[], metric::text) LIMIT 1
    ) AS s
), later AS MATERIALIZED (
    SELECT run_id, number, resumed_from_step FROM runs_attempt
    WHERE run_id = ANY(%(runs)s) AND number > 1 AND started_at IS NOT NULL
)"""
# Joins them to runs_point as `p`, series as `s`; ends inside a WHERE.
POINTS = """chosen AS s JOIN runs_point AS p ON p.series_id = s.id
WHERE NOT EXISTS (
    SELECT 1 FROM later AS a
    WHERE a.run_id = s.run_id AND a.number > p.attempt
        AND (a.resumed_from_step IS NULL OR a.resumed_from_step < p.step))"""
