-- Which agent types of event-sourced workers are subscribed to which topics: whom a publication is for, also while no
-- worker has the type. prefix: topic_type is the beginning of the topics' types.
-- created_at: what was published before is for others. stale_at: a worker has registered the type since, and not (yet)
-- subscribed it again. Times are the database's clock.
CREATE TABLE subscription (
    agent_type text COLLATE "C" NOT NULL,
    topic_type text COLLATE "C" NOT NULL,
    prefix boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stale_at timestamptz,
    PRIMARY KEY (agent_type, topic_type, prefix)
);
