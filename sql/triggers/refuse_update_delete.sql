-- Row trigger: Postgres clones it to every partition, present and future, so a partition refuses too.
CREATE TRIGGER refuse_update_delete
BEFORE UPDATE OR DELETE ON event
FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER refuse_update_delete
BEFORE UPDATE OR DELETE ON large_payload
FOR EACH ROW EXECUTE FUNCTION refuse_change();
