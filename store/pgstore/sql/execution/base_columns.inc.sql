-- The columns of an execution e, in the order of the fields of a row in row.go, but for
-- those that may be large and the instant of the last change.
e.id::text, e.definition_id, e.version, e.state, e.queue, e.priority, e.attempt, e.step, e.loops, e.retry_state,
e.reclaims, e.resumed_from_state, e.current_step, e.current_attempt, e.current_started_at, e.current_step_id, e.current_step_type,
e.current_iteration, e.current_iteration_total, e.current_lost_worker, e.created_at, e.due_at, e.started_at, e.ended_at,
e.failed_items, e.rerun_of::text,
e.failure, e.request, e.resumed, e.idempotency_key, e.key_scope, e.limit_keys, e.timeout_ns, e.created_by, e.worker, e.workspace,
e.heartbeat_at, e.lease_expires_at, e.disk_bytes, e.last_audit_seq, e.chain_execution_id::text, e.chain_member, e.waits_for, e.has_dependents,
e.requested_by, e.requested_at, e.request_reason, e.options, e.progress, e.finishing, e.finally_error, 'flow.finally' = any(e.step_types)
