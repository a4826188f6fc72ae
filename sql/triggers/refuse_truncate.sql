-- TRUNCATE has statement triggers only, and those are not cloned: `ensure_partition` makes one per partition.
CREATE TRIGGER refuse_truncate
BEFORE TRUNCATE ON event
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TRIGGER refuse_truncate
BEFORE TRUNCATE ON event_default
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TRIGGER refuse_truncate
BEFORE TRUNCATE ON large_payload
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TRIGGER refuse_truncate
BEFORE TRUNCATE ON large_payload_default
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
