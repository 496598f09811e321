package arch

// A Room is a directory of the module and what its package may import.
// Every package may import the standard library. Test files may import
// everything in the module and every library of [Libraries] besides, because
// no user's program links them.
type Room struct {
	// Dir is the directory relative to the root, which is "."; the last
	// element may be "*", for every directory at that level that has no room
	// of its own.
	Dir string

	// Imports are directories of the module, in the same notation. "..."
	// stands for all of them.
	Imports []string

	// Libraries are paths of modules of other people.
	Libraries []string

	// Outside says that the package is never linked into a user's service: a
	// test instrument or a program of its own. Only test files and other rooms
	// of this kind may import it.
	Outside bool
}

// The modules of other people that this one may require directly. Each has
// its reason in the design; anything else needs one there first.
const (
	pgx         = "github.com/jackc/pgx/v5"
	pkgSFTP     = "github.com/pkg/sftp"
	xCrypto     = "golang.org/x/crypto"
	goCrypto    = "github.com/ProtonMail/go-crypto"
	jlaffayeFTP = "github.com/jlaffaye/ftp"
	compress    = "github.com/klauspost/compress"
	doublestar  = "github.com/bmatcuk/doublestar/v4"
)

// Libraries lists the modules that go.mod may require directly.
// It is a statement of policy: do not extend it to make a build pass.
var Libraries = []string{pgx, pkgSFTP, xCrypto, goCrypto, jlaffayeFTP, compress, doublestar}

// subsystem is what a package with one subject beside the execution of jobs may
// import: none imports another one or the engine, of which it declares what it needs.
var subsystem = []string{".", "flow", "store", "engine/internal/core", "engine/internal/program", "internal/*"}

// Rooms lists every package of the module with the arrows that lead out of
// it, all of them downward: flow decides what comes next, engine does it,
// store remembers it, steps know none of the three, and the root package is
// the language in which they speak. It imports only internal packages that import
// nothing of the module. A subject beside the execution of jobs, such as schedule or monitor, lies
// above store and below what implements and uses it: a package has its vocabulary, its
// rules, the role that it asks of a store, and its service.
//
// It is a statement of policy: do not extend it to make a build pass. A new
// directory gets its room by a decision, not by what it happens to import.
// That a room is listed does not mean that it has been built.
var Rooms = []Room{
	{Dir: ".", Imports: []string{"internal/errtext", "internal/failure", "internal/glob", "internal/inside", "internal/jsontext", "internal/localfile", "internal/nearest", "internal/note", "internal/redact", "internal/reference", "internal/safename", "internal/strictjson"}},
	{Dir: "flow", Imports: []string{".", "internal/glob", "internal/jsontext", "internal/nearest", "internal/reference"}},
	{Dir: "jsonschema", Imports: []string{".", "internal/schemadoc"}},
	{Dir: "webhook"},
	{Dir: "depot", Imports: []string{".", "internal/*"}},
	{Dir: "depot/depottest", Imports: []string{".", "depot"}, Outside: true},

	{Dir: "store", Imports: []string{".", "flow", "internal/nearest"}},
	{Dir: "calendar", Imports: []string{".", "store", "internal/*"}},                      // a subject: its vocabulary, rules and service
	{Dir: "schedule", Imports: []string{".", "calendar", "store", "internal/*", "chain"}}, // a subject: its vocabulary, rules, role of a store, and service
	{Dir: "monitor", Imports: []string{".", "calendar", "chain", "store", "internal/*"}},
	{Dir: "expectation", Imports: []string{".", "calendar", "monitor", "store", "internal/*"}},
	{Dir: "store/memstore", Imports: []string{".", "expectation", "monitor", "schedule", "store", "internal/*", "chain", "notify"}},
	{Dir: "store/pgstore", Imports: []string{".", "expectation", "monitor", "schedule", "store", "store/pgstore/internal/*", "internal/*", "chain", "notify"}, Libraries: []string{pgx}},
	{Dir: "chain", Imports: []string{".", "flow", "store", "internal/*"}}, // a subject: its vocabulary, rules, role of a store, and service
	{Dir: "notify", Imports: []string{".", "store", "webhook", "internal/*"}},
	{Dir: "store/pgstore/internal/bind", Libraries: []string{pgx}},
	{Dir: "store/pgstore/internal/migrate", Imports: []string{"store/pgstore/internal/sqltext"}, Libraries: []string{pgx}},
	{Dir: "store/pgstore/internal/pgnotify", Imports: []string{"internal/wakeup"}, Libraries: []string{pgx}},
	{Dir: "store/pgstore/internal/sqltext", Libraries: []string{pgx}},
	{Dir: "store/storewrap", Imports: []string{".", "expectation", "monitor", "schedule", "store", "chain", "notify"}, Outside: true},
	{Dir: "store/storetest", Imports: []string{".", "store", "store/storewrap", "store/storetest/internal/*", "engine", "internal/*"}, Outside: true},
	{Dir: "store/storetest/internal/storekit", Imports: []string{".", "store", "internal/uuid7"}, Outside: true},
	{Dir: "store/storetest/internal/executions", Imports: []string{".", "store", "store/storetest/internal/storekit", "internal/*"}, Outside: true},
	{Dir: "store/storetest/internal/coordination", Imports: []string{".", "advice", "expectation", "monitor", "schedule", "store", "store/storetest/internal/storekit", "internal/*", "chain", "notify"}, Outside: true},

	{Dir: "advice", Imports: []string{".", "store", "internal/nearest"}}, // why an execution does not go on, in words
	{Dir: "engine", Imports: []string{"calendar", "expectation", ".", "flow", "monitor", "schedule", "store", "advice", "engine/dryrun", "engine/internal/*", "internal/*", "chain", "notify"}},
	{Dir: "engine/dryrun", Imports: []string{".", "flow", "schedule", "internal/*", "chain"}}, // what a dry run reports, without how it is made
	{Dir: "engine/internal/program", Imports: []string{".", "flow", "store", "internal/*", "chain"}},
	{Dir: "engine/internal/core", Imports: []string{".", "expectation", "flow", "monitor", "schedule", "store", "engine/internal/program", "internal/*", "chain", "notify"}},
	{Dir: "engine/internal/deadlines", Imports: subsystem},
	{Dir: "engine/internal/definitions", Imports: append([]string{"chain", "schedule", "notify"}, subsystem...)},
	{Dir: "engine/internal/dryruns", Imports: append([]string{"chain", "engine/dryrun", "schedule"}, subsystem...)},
	{Dir: "engine/internal/executionlog", Imports: subsystem},
	{Dir: "engine/internal/history", Imports: subsystem},
	{Dir: "engine/internal/hooks", Imports: []string{"."}},
	{Dir: "engine/internal/isolated", Imports: []string{".", "engine/internal/stepcall", "internal/jsontext", "internal/nearest", "internal/procgroup", "internal/stepcontext"}},
	{Dir: "engine/internal/checkpoint", Imports: append([]string{"engine/internal/reports"}, subsystem...)},
	{Dir: "engine/internal/leases", Imports: subsystem},
	{Dir: "engine/internal/hours", Imports: subsystem},
	{Dir: "engine/internal/maintenance", Imports: subsystem},
	{Dir: "engine/internal/figures", Imports: append([]string{"calendar", "expectation"}, subsystem...)},
	{Dir: "engine/internal/probe", Imports: append([]string{"expectation", "monitor", "schedule", "chain", "notify"}, subsystem...)},
	{Dir: "engine/internal/repair", Imports: append([]string{"engine/internal/history"}, subsystem...)},
	{Dir: "engine/internal/reports", Imports: subsystem},
	{Dir: "engine/internal/slots", Imports: subsystem},
	{Dir: "engine/internal/stepcall", Imports: []string{".", "internal/*"}},
	{Dir: "engine/internal/steplog"},
	{Dir: "engine/internal/unserved", Imports: append([]string{"advice"}, subsystem...)},
	{Dir: "engine/internal/waiters", Imports: []string{"."}},
	{Dir: "engine/internal/workspace", Imports: subsystem},
	{Dir: "engine/simulation", Imports: []string{"calendar", "expectation", "monitor", "notify", ".", "chain", "schedule", "store", "store/memstore", "store/storetest", "store/storewrap", "engine", "internal/stepcontext", "internal/test/promise"}, Outside: true},

	{Dir: "steps", Imports: []string{".", "depot", "steps/*", "internal/*"}},
	{Dir: "steps/fileserver", Imports: []string{"."}}, // what users set and read of steps/sftp and steps/ftp alike; internal/remote executes it
	{Dir: "steps/file", Imports: []string{".", "internal/*"}, Libraries: []string{compress, doublestar}},
	{Dir: "steps/sftp", Imports: []string{".", "steps/fileserver", "internal/*"}, Libraries: []string{xCrypto}},
	{Dir: "steps/ftp", Imports: []string{".", "steps/fileserver", "internal/*"}},
	{Dir: "steps/pgp", Imports: []string{".", "internal/*"}},
	{Dir: "steps/azure", Imports: []string{".", "internal/*"}},
	{Dir: "steps/exec", Imports: []string{".", "internal/*"}},
	{Dir: "steps/httpreq", Imports: []string{".", "internal/*"}},
	{Dir: "steps/job", Imports: []string{"."}},
	{Dir: "steps/sftp/sftptest", Imports: []string{"couriertest", "steps/sftp", "internal/*", "internal/test/*"}, Libraries: []string{xCrypto}, Outside: true},
	{Dir: "steps/ftp/ftptest", Imports: []string{"couriertest", "steps/ftp", "internal/*", "internal/test/*"}, Outside: true},
	{Dir: "steps/steptest", Imports: []string{".", "internal/*"}, Outside: true},

	{Dir: "couriertest", Imports: []string{".", "depot", "flow", "store", "store/memstore", "engine", "internal/jsontext", "internal/reference"}, Outside: true},
	{Dir: "examples/*", Imports: []string{"..."}, Libraries: Libraries, Outside: true},
	{Dir: "examples/login/session"},

	{Dir: "internal/archive", Imports: []string{"internal/failure", "internal/localfile", "internal/readahead", "internal/safename", "internal/transfer"}, Libraries: []string{compress}},
	{Dir: "internal/asked"},
	{Dir: "internal/attention", Imports: []string{"calendar", "expectation", ".", "advice", "engine", "internal/ticks", "monitor", "notify", "schedule", "store"}}, // what an operator has to look at: above the engine
	{Dir: "internal/bandwidth", Imports: []string{"internal/wakeup"}},
	{Dir: "internal/bulk", Imports: []string{".", "engine", "internal/filter", "internal/nearest"}}, // one action on many executions: above the engine
	{Dir: "internal/connerr", Imports: []string{"internal/failure", "internal/safename"}},
	{Dir: "internal/connfile", Imports: []string{".", "internal/nearest", "internal/reload", "internal/safename"}},
	{Dir: "internal/cron", Imports: []string{"internal/nearest"}},
	{Dir: "internal/duepoll", Imports: []string{"internal/wakeup"}}, // the loop of what polls for monitors and expectations
	{Dir: "internal/errtext"},
	{Dir: "internal/eventstream"},
	{Dir: "internal/failure"},
	{Dir: "access"},
	{Dir: "httpapi", Imports: []string{"calendar", "expectation", ".", "access", "advice", "depot", "flow", "schedule", "store", "engine", "engine/dryrun", "httpapi/internal/*", "internal/attention", "internal/bulk", "internal/definitiondiff", "internal/desk", "internal/eventstream", "internal/filter", "internal/jsontext", "internal/metrics", "internal/mount", "internal/nearest", "internal/schemadoc", "internal/ticks", "internal/uuid7", "internal/watch", "webhook", "monitor", "chain", "notify"}},
	{Dir: "dashboard", Imports: []string{"calendar", "expectation", ".", "access", "advice", "depot", "flow", "schedule", "store", "engine", "engine/dryrun", "httpapi", "dashboard/internal/*", "internal/attention", "internal/bulk", "internal/definitiondiff", "internal/desk", "internal/eventstream", "internal/filter", "internal/jsontext", "internal/mount", "internal/nearest", "monitor", "chain", "notify"}},
	{Dir: "dashboard/internal/calendar", Imports: []string{"dashboard/internal/format", "internal/ticks"}},
	{Dir: "dashboard/internal/dag", Imports: []string{".", "dashboard/internal/format", "chain"}},
	{Dir: "dashboard/internal/definition", Imports: []string{".", "dashboard/internal/format", "flow", "internal/jsontext", "chain"}},
	{Dir: "dashboard/internal/diff", Imports: []string{".", "dashboard/internal/format", "internal/definitiondiff", "chain", "internal/desk"}},
	{Dir: "dashboard/internal/filehash", Imports: []string{"internal/jsontext"}},
	{Dir: "dashboard/internal/form", Imports: []string{".", "dashboard/internal/format"}},
	{Dir: "dashboard/internal/format", Imports: []string{"."}},
	{Dir: "dashboard/internal/glossary", Imports: []string{"internal/desk"}},
	{Dir: "dashboard/internal/life", Imports: []string{".", "dashboard/internal/format", "store"}},
	{Dir: "dashboard/internal/outcome", Imports: []string{"dashboard/internal/problem"}},
	{Dir: "dashboard/internal/outline", Imports: []string{".", "dashboard/internal/format", "dashboard/internal/problem", "flow", "internal/jsontext", "store"}},
	{Dir: "dashboard/internal/problem", Imports: []string{"calendar", "expectation", ".", "access", "dashboard/internal/format", "internal/desk", "internal/filter", "schedule", "store", "monitor", "chain", "notify"}},
	{Dir: "dashboard/internal/report", Imports: []string{".", "engine/dryrun", "schedule"}},
	{Dir: "dashboard/internal/resumeform", Imports: []string{".", "dashboard/internal/format", "dashboard/internal/problem", "engine", "flow", "internal/jsontext"}},
	{Dir: "dashboard/internal/runform", Imports: []string{".", "dashboard/internal/definition", "dashboard/internal/format", "engine", "flow", "internal/desk", "internal/jsontext"}},
	{Dir: "dashboard/internal/sheet", Imports: []string{"dashboard/internal/format"}},
	{Dir: "dashboard/internal/values", Imports: []string{".", "dashboard/internal/format", "flow"}},
	{Dir: "dashboard/internal/versions", Imports: []string{".", "flow"}},
	{Dir: "httpapi/internal/files", Imports: []string{".", "depot", "internal/jsontext", "internal/safename"}}, // streams of files, without what routes know
	{Dir: "internal/definitiondiff"},
	{Dir: "internal/desk", Imports: []string{"calendar", "expectation", ".", "access", "advice", "depot", "schedule", "store", "engine", "engine/dryrun", "internal/asked", "internal/attention", "internal/bulk", "internal/filter", "internal/ticks", "internal/watch", "monitor", "chain", "notify"}}, // what ties the requests of HTTP, pages and a command to a principal: above the engine
	{Dir: "internal/dirwatch"},
	{Dir: "internal/filter", Imports: []string{".", "store", "internal/nearest", "internal/uuid7"}}, // the language in which people filter executions
	{Dir: "internal/ftpclient", Imports: []string{"internal/connerr", "internal/failure", "internal/safehttp", "internal/safename"}},
	{Dir: "internal/glob", Imports: []string{"internal/localfile"}},
	{Dir: "internal/globmatch", Imports: []string{".", "internal/glob", "internal/safename"}, Libraries: []string{doublestar}},
	{Dir: "internal/inputs", Imports: []string{".", "flow", "store", "internal/jsontext", "internal/text"}}, // what executions are started with
	{Dir: "internal/inside"},
	{Dir: "internal/jsontext"},
	{Dir: "internal/localfile", Imports: []string{"internal/failure"}},
	{Dir: "internal/metrics", Imports: []string{"."}}, // what is recorded of engines: below the engine
	{Dir: "internal/mount"},
	{Dir: "internal/named", Imports: []string{".", "store", "internal/nearest", "internal/text"}}, // what schedules, monitors and subscriptions have in common
	{Dir: "internal/nearest"},
	{Dir: "internal/note", Imports: []string{"internal/failure", "internal/inside", "internal/localfile"}},
	{Dir: "internal/parallel"},
	{Dir: "internal/pgpstream", Imports: []string{"internal/failure", "internal/readahead", "internal/transfer"}, Libraries: []string{goCrypto, compress}},
	{Dir: "internal/redact"},
	{Dir: "internal/reference", Imports: []string{"internal/nearest"}},
	{Dir: "internal/reload"},
	{Dir: "internal/procgroup"},
	{Dir: "internal/readahead"},
	{Dir: "internal/remote", Imports: []string{".", "internal/bandwidth", "internal/connerr", "internal/glob", "internal/globmatch", "internal/localfile", "internal/nearest", "internal/note", "internal/parallel", "internal/safename", "internal/stepcontext", "internal/transfer", "internal/wakeup", "steps/fileserver"}, Libraries: []string{doublestar}},
	{Dir: "internal/safehttp", Imports: []string{"internal/safename"}},
	{Dir: "internal/safename"},
	{Dir: "internal/schemadoc", Imports: []string{"calendar", "expectation", ".", "flow", "chain", "monitor", "notify", "schedule", "internal/jsontext"}}, // JSON Schemas: those of definitions, for editors and for the HTTP API
	{Dir: "internal/secret", Imports: []string{".", "internal/text"}},                                                                                     // how secrets are resolved, and kept out of text
	{Dir: "internal/sftpclient", Imports: []string{"internal/bandwidth", "internal/connerr", "internal/failure", "internal/glob", "internal/nearest", "internal/parallel", "internal/safename"}, Libraries: []string{pkgSFTP, xCrypto}},
	{Dir: "internal/stepcontext", Imports: []string{".", "internal/inside"}},
	{Dir: "internal/storecall", Imports: []string{"."}}, // how the engine calls a store
	{Dir: "internal/strictjson", Imports: []string{"internal/errtext", "internal/nearest"}},
	{Dir: "internal/target", Imports: []string{"store"}},                // the names of what a schedule or a monitor starts
	{Dir: "internal/text", Imports: []string{".", "internal/jsontext"}}, // rules for text that is stored and shown
	{Dir: "internal/ticks", Imports: []string{"calendar", "schedule"}},  // when schedules fire, and what changes of the clocks mean for them
	{Dir: "internal/transfer", Imports: []string{"internal/failure", "internal/localfile", "internal/safename"}},
	{Dir: "internal/uuid7"},
	{Dir: "internal/wakeup"},
	{Dir: "internal/watch", Imports: []string{".", "access", "engine", "internal/wakeup", "store"}}, // what tells many viewers at the cost of one: above the engine

	// What only tests use.
	{Dir: "dashboard/browser", Outside: true},
	{Dir: "dashboard/internal/demo", Imports: []string{"calendar", "expectation", ".", "access", "monitor", "schedule", "store", "store/memstore", "store/storewrap", "engine", "httpapi", "dashboard", "chain", "notify"}, Outside: true},
	{Dir: "dashboard/internal/failures", Imports: []string{".", "access", "schedule", "store", "store/memstore", "store/storewrap", "engine", "httpapi", "dashboard", "steps", "steps/*", "internal/test/sftpserver", "notify"}, Libraries: []string{xCrypto}, Outside: true},
	{Dir: "internal/test/arch", Outside: true},
	{Dir: "internal/test/chromium", Outside: true},
	{Dir: "internal/test/confined", Outside: true},
	{Dir: "internal/test/corpus", Outside: true},
	{Dir: "internal/test/ftpdtest", Imports: []string{"internal/test/ftpserver", "internal/test/inetd"}, Outside: true},
	{Dir: "internal/test/ftpserver", Imports: []string{"internal/test/memnet"}, Outside: true},
	{Dir: "internal/test/generated", Outside: true},
	{Dir: "internal/test/hostile", Outside: true},
	{Dir: "internal/test/inetd", Outside: true},
	{Dir: "internal/test/memnet", Outside: true},
	{Dir: "internal/test/pgproxy", Outside: true},
	{Dir: "internal/test/pgptest", Libraries: []string{goCrypto}, Outside: true},
	{Dir: "internal/test/pgstoretest", Imports: []string{"store/pgstore"}, Libraries: []string{pgx}, Outside: true},
	{Dir: "internal/test/pgtest", Libraries: []string{pgx}, Outside: true},
	{Dir: "internal/test/planted", Outside: true},
	{Dir: "internal/test/process", Imports: []string{"internal/test/lockedbuffer"}, Outside: true},
	{Dir: "internal/test/promise", Imports: []string{".", "calendar", "chain", "expectation", "internal/stepcontext", "notify", "schedule", "store", "store/storetest", "store/storewrap"}, Outside: true},
	{Dir: "internal/test/lockedbuffer", Outside: true},
	{Dir: "internal/test/raced", Outside: true},
	{Dir: "internal/test/remotetour", Imports: []string{".", "internal/test/steprig"}, Outside: true},
	{Dir: "internal/test/schemacheck", Outside: true},
	{Dir: "internal/test/sftpserver", Imports: []string{"internal/test/memnet"}, Libraries: []string{pkgSFTP, xCrypto}, Outside: true},
	{Dir: "internal/test/sshdtest", Imports: []string{"internal/test/ftpdtest", "internal/test/inetd"}, Libraries: []string{xCrypto}, Outside: true},
	{Dir: "internal/test/steprig", Imports: []string{".", "internal/test/lockedbuffer"}, Outside: true},
	{Dir: "internal/test/synced", Outside: true},
}

// A Budget says which modules of other people a program links that imports
// the given directories of this one and nothing else.
type Budget struct {
	Dirs    []string
	Modules []string
}

// Budgets lists what a user pays for a part of Courier.
// It is a statement of policy: do not extend it to make a build pass.
var Budgets = []Budget{
	{Dirs: []string{".", "flow", "monitor", "schedule", "store", "couriertest"}},
	{Dirs: []string{"engine", "store/memstore", "httpapi", "dashboard", "jsonschema", "depot"}},
	{Dirs: []string{"engine", "store/memstore", "steps/file"}, Modules: []string{compress, doublestar}},
}

// A Ban is an import path that no file may import, nor any path below it.
type Ban struct {
	Path   string
	Reason string
}

// Bans lists the packages that must not appear anywhere, tests included.
// It is a statement of policy: do not shorten it to make a build pass.
var Bans = []Ban{
	{"golang.org/x/crypto/openpgp", "it is frozen and unsafe; use " + goCrypto},
	{"github.com/stretchr/testify", "tests use the testing package alone"},
}

// Names lists the package names that say nothing about what is inside.
var Names = []string{"util", "utils", "common", "types", "helper", "helpers"}
