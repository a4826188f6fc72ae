-- What a schema holds, as rows of text, without numbers that differ from one creation to the next.
SELECT 'relation' AS kind, c.relname::text AS name,
    concat_ws(' ', c.relkind, c.reloptions, pg_get_expr(c.relpartbound, c.oid), pg_get_viewdef(c.oid)) AS definition
FROM pg_class AS c
WHERE c.relnamespace = quote_ident(%(schema)s)::regnamespace AND c.relkind <> 'i' AND c.relkind <> 'I'
UNION ALL
SELECT 'column', c.relname || '.' || a.attname,
    concat_ws(
        ' ', a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
        a.attcollation::regcollation, a.attstorage, a.attcompression, pg_get_expr(d.adbin, d.adrelid)
    )
FROM pg_attribute AS a
INNER JOIN pg_class AS c ON c.oid = a.attrelid
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relnamespace = quote_ident(%(schema)s)::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint', concat_ws('.', r.conrelid::regclass, r.conname), pg_get_constraintdef(r.oid)
FROM pg_constraint AS r
WHERE r.connamespace = quote_ident(%(schema)s)::regnamespace
UNION ALL
SELECT 'index', i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
FROM pg_index AS i
INNER JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = quote_ident(%(schema)s)::regnamespace
UNION ALL
SELECT 'trigger', concat_ws('.', t.tgrelid::regclass, t.tgname), pg_get_triggerdef(t.oid)
FROM pg_trigger AS t
INNER JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = quote_ident(%(schema)s)::regnamespace
UNION ALL
SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid)
FROM pg_proc AS p
WHERE p.pronamespace = quote_ident(%(schema)s)::regnamespace
UNION ALL
SELECT 'row', 'position_base', b.base::text
FROM position_base AS b
ORDER BY 1, 2, 3
