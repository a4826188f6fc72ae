-- Trigger function: recorded events are never updated, deleted or truncated (G9). Error EL002.
CREATE FUNCTION refuse_change()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RAISE EXCEPTION '% on % refused: recorded events are never changed', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'EL002',
        DETAIL = json_build_object('operation', TG_OP, 'table', TG_TABLE_NAME)::text,
        HINT = 'To go back in time, restore (it appends). To remove old events, drop partitions by retention.';
END
$$;
