-- Whether an execution e that has ended holds no files that may exist nowhere else. Of a failed
-- one with a workspace it may be unknown.
	case when e.only_copies is null then e.state <> 'failed' or e.workspace = '' else e.only_copies = '{}' end
