package steps_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// An idea is what a key of a configuration or an output stands for. It has one
// spelling in all step types.
type idea struct {
	what    string
	key     string // the spelling that is used
	in      string // "configuration" or "output"; empty means both
	refused string // regular expression of whole keys, for other spellings
}

var ideas = []idea{
	{"what to do about a target that exists", "if_exists", "configuration", `idempotency|on_(exists?|existing|conflict)|\w*_(if|when)_exists|overwrite|replace|exists_policy`},
	{"go on where an attempt stopped", "resume", "configuration", `resume_\w+|resumable|continue|continue_\w+|restart`},
	{"a missing path is no error", "ignore_missing", "configuration", `fail_(if|when|on)_(not_found|missing|absent|none)|missing_ok|allow_missing|(if|on)_missing|must_exist|ignore_not_found|optional`},
	{"a time in seconds", "<what>_seconds", "", `timeout|interval|delay|wait|duration|age|\w+_(secs?|ms|millis|milliseconds|minutes|mins|hours|duration|interval|delay)|(response|connect|read|write|call|stall|idle)_timeout`},
	{"the longest time to wait", "timeout_seconds", "configuration", `max_wait(_seconds)?|wait_seconds|max_seconds|deadline_seconds`},
	{"the time between two looks", "poll_seconds", "configuration", `(poll_|poll_every_|check_)?interval_seconds|poll_every_seconds|check_seconds`},
	{"for how long a file has not changed", "stable_seconds", "configuration", `(unchanged|settle|quiet|stability)_seconds`},
	{"how to check the content of a transfer", "checksum", "configuration", `verify(_content|_checksum)|read_back|check_content|integrity|checksums`},
	{"the file to work on", "source_path", "configuration", `input(_path|_file)?|src(_path)?|from(_path)?|old_path|file_path|in_path`},
	{"the new place of a file", "destination_path", "configuration", `new_path|target(_path)?|dest(_path)?|to|to_path`},
	{"the file that the step makes", "output_path", "configuration", `output(_file)?|out_path|result_path|save_(as|to)`},
	{"the directory that the step fills", "output_directory", "configuration", `output_dir|extract_to|target_directory|destination_directory`},
	{"the connection", "connection_id", "configuration", `conn(ection)?|conn_id|connection_name|server|profile`},
	{"which names match", "pattern", "configuration", `mask|wildcard|filter|match|include|(file|name|glob|include)_pattern`},
	{"which names don't", "exclude", "configuration", `exclude_pattern|ignore|ignore_pattern|except`},
	{"directories below too", "recursive", "configuration", `recurse|(include_)?sub_?directories`},
	{"links count too", "follow_links", "configuration", `follow_symlinks|(sym)?links|include_links`},
	{"names that can't be used", "on_unsafe_name", "configuration", `(unsafe|bad|invalid)_names?|on_(bad|invalid)_name`},
	{"the most bytes of a file", "max_bytes", "configuration", `max_(output_bytes|size|file_size|content_bytes|file_bytes|length)|size_limit|byte_limit`},
	{"bytes per second at most", "bandwidth_limit", "configuration", `(rate|speed)_limit|max_rate|max_bandwidth|bytes_per_second|throttle`},
	{"what to do with the source afterwards", "after_transfer", "configuration", `(delete|move|remove|archive)_(after|source|when_done)\w*|on_success|post_\w+`},
	{"do it at most once", "once", "configuration", `at_most_once|only_once|no_repeat|exactly_once`},
	{"the keys whose signatures count", "signer_key_ids", "configuration", `expected_signer\w*|signers|trusted_key_ids|verify_key_ids`},
	{"permissions of a file", "mode", "", `permissions?|perms?|chmod|file_mode`},
	{"a password", "password", "configuration", `passphrase|passwd|pass|archive_password`},
	{"bytes", "size", "output", `(file_|total_|content_|output_)?(bytes|length)|(file|total|content|output)_size|size_bytes|bytes_\w+`},
	{"how many", "<what>_count", "output", `count|n|entries|parts|num(ber)?_\w+|\w+_(num|number)|total_\w+|\w+_total`},
	{"a file, or a list of files by their paths", "<what>_file, <what>_files", "output", `files?|paths?_list|filenames?|file_names?|\w+_paths|\w+_filename`},
	{"what was there already", "skipped, skipped_files", "output", `already_\w+|existing(_files)?|left(_files)?|was_skipped|is_skipped`},
	{"names that were left out as unsafe", "unsafe_count", "output", `(skipped|refused|unusable|ignored)_count`},
	{"the last change of a file", "modified", "output", `mtime|last_modified|modified_(at|time)|modification_time|changed(_at)?`},
	{"the time of a signature", "signed_at", "output", `\w*timestamp|signature_time|signed(_time)?`},
	{"whether a check was passed", "valid", "output", `(is_)?(valid|verified|ok|good)_?|is_\w*valid`},
	{"a SHA-256", "sha256", "", `sha_?2|sha-?256sum|sha_256|digest|content_hash|file_hash|checksum_value`},
}

// A stepKey is a field of the configuration or the output of a step type.
type stepKey struct {
	step, in string // in as in idea
	courier.Property
}

func (k stepKey) String() string { return fmt.Sprintf("%s: %s of its %s", k.step, k.Name, k.in) }

// form is what must be the same wherever the key occurs.
func (k stepKey) form() string {
	s := k.Schema
	form := typeName(s)
	if form == "path" || form == "pattern" || form == "URL" {
		form = "text" // which of them may be a pattern differs, and is checked by Define
	}
	if k.in == "output" {
		return form
	}
	return fmt.Sprintf("%s, default %q, one of %q", form, k.Default, s.Enum)
}

// A variant says that a key has another form in the step types that match.
type variant struct {
	key, in string
	steps   string // regular expression
	why     string
}

var variants = []variant{
	{"ignore_missing", "configuration", `\.(delete|rmdir|stat)$`, "what is to be gone and is missing is what was asked for; what is to be transferred and is missing is a mistake"},
	{"if_exists", "configuration", `^file\.(unzip|untar)$`, "an archive is published as a whole, so there is no skip; into a directory that holds something it goes only if asked"},
	{"preserve", "configuration", `^sftp\.upload$`, "who receives a file expects it to be new, unless asked"},
	{"preserve", "configuration", `^ftp\.upload$`, "as for sftp.upload; FTP has no modes of files"},
	{"preserve", "configuration", `^ftp\.download$`, "FTP has no modes of files"},
	{"stable_seconds", "configuration", `^file\.wait$`, "to wait until files don't change is what the step is for"},
	{"poll_seconds", "configuration", `^azure_function\.`, "questions to a service are slower and dearer than looks at a directory"},
	{"remote_path", "configuration", `\.list$`, "the login directory is worth a listing, and no other step's default"},
	{"algorithm", "configuration", `^file\.verify$`, "the manifest says it"},
	{"format", "configuration", `^file\.untar$`, "the content says it"},
}

// stepKeys lists the fields of all step types, those of objects in them included.
func stepKeys(reg *courier.Registry) (all []stepKey) {
	var walk func(step, in string, s *courier.Schema)
	walk = func(step, in string, s *courier.Schema) {
		for _, p := range s.Properties {
			all = append(all, stepKey{step, in, p})
			walk(step, in, p.Schema)
		}
		if s.Items != nil {
			walk(step, in, s.Items)
		}
	}
	for _, key := range reg.Keys() {
		if typ, _ := reg.Lookup(key); typ.Key() == key {
			walk(key, "configuration", typ.Config())
			walk(key, "output", typ.Output())
		}
	}
	return all
}

// badKeys reports the keys that have another spelling, or another form, than the
// same idea elsewhere, and variants without a use.
func badKeys(keys []stepKey) (bad []string) {
	refused := make([]*regexp.Regexp, len(ideas))
	for n, i := range ideas {
		refused[n] = regexp.MustCompile("^(?:" + i.refused + ")$")
	}
	for _, k := range keys {
		for n, i := range ideas {
			if (i.in == "" || i.in == k.in) && k.Name != i.key && refused[n].MatchString(k.Name) {
				bad = append(bad, fmt.Sprintf("%s: the key for %s is %s", k, i.what, i.key))
			}
		}
	}
	first, used, steps := make(map[string]stepKey), make([]bool, len(variants)), make([]*regexp.Regexp, len(variants))
	for i, v := range variants {
		steps[i] = regexp.MustCompile(v.steps)
	}
	for _, k := range keys {
		group := k.in + " " + k.Name
		for i, v := range variants {
			if v.key == k.Name && v.in == k.in && steps[i].MatchString(k.step) {
				group, used[i] = fmt.Sprint(group, " ", i), true
			}
		}
		other, known := first[group]
		if !known {
			first[group] = k
		} else if other.form() != k.form() {
			bad = append(bad, fmt.Sprintf("%s is %s, but %s of %s is %s", k, k.form(), k.Name, other.step, other.form()))
		}
	}
	for i, v := range variants {
		other, ok := first[v.in+" "+v.key]
		mine, has := first[fmt.Sprint(v.in, " ", v.key, " ", i)]
		if !used[i] || ok && has && mine.form() == other.form() {
			bad = append(bad, fmt.Sprintf("the variant of %s in %s isn't needed", v.key, v.steps))
		}
	}
	return bad
}

// TestKeys: one idea has one key in all step types, and one key has one type, one
// list of values and one default, but for the variants that give a reason.
func TestKeys(t *testing.T) {
	keys := stepKeys(registry())
	if len(keys) < 300 {
		t.Fatalf("only %d keys", len(keys))
	}
	for _, bad := range badKeys(keys) {
		t.Error(bad)
	}
	for _, k := range keys {
		if want := regexp.MustCompile(`\.(delete|rmdir|stat)$`).MatchString(k.step); k.Name == "ignore_missing" && (k.Default == "true") != want {
			t.Errorf("%s has the default %q", k, k.Default)
		}
	}
	// What jobs, schedules and monitors are configured by is spelled alike.
	for _, typ := range []reflect.Type{
		reflect.TypeFor[courier.Job](), reflect.TypeFor[courier.StepSpec](), reflect.TypeFor[chain.Chain](),
		reflect.TypeFor[schedule.Schedule](), reflect.TypeFor[monitor.Monitor](), reflect.TypeFor[notify.Subscription](),
	} {
		for f := range fieldsOf(typ) {
			k := stepKey{step: typ.Name(), in: "configuration", Property: courier.Property{Name: f}}
			for _, bad := range badKeys([]stepKey{k}) {
				if strings.Contains(bad, "the key for") {
					t.Error(bad)
				}
			}
		}
	}
}

// fieldsOf returns the JSON keys of a struct.
func fieldsOf(typ reflect.Type) map[string]bool {
	names := make(map[string]bool)
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names[name] = true
		}
	}
	return names
}

// TestKeysAreRefused: the test of the keys finds each kind of mistake.
func TestKeysAreRefused(t *testing.T) {
	text, flag, number, whole := &courier.Schema{Type: "string"}, &courier.Schema{Type: "boolean"}, &courier.Schema{Type: "number"}, &courier.Schema{Type: "integer"}
	values := func(enum ...string) *courier.Schema { return &courier.Schema{Type: "string", Enum: enum} }
	keys := stepKeys(registry())
	before := badKeys(keys)
	for _, c := range []struct {
		in, name, def string
		schema        *courier.Schema
		want          string
	}{
		{"configuration", "idempotency", "", values("overwrite", "skip_if_exists"), "is if_exists"},
		{"configuration", "fail_if_not_found", "", flag, "is ignore_missing"},
		{"configuration", "resume_partial", "", flag, "is resume"},
		{"configuration", "verify_content", "", flag, "is checksum"},
		{"configuration", "max_wait_sec", "", number, "is <what>_seconds"},
		{"configuration", "max_wait_seconds", "", number, "is timeout_seconds"},
		{"configuration", "input_path", "", text, "is source_path"},
		{"configuration", "new_path", "", text, "is destination_path"},
		{"configuration", "max_output_bytes", "", whole, "is max_bytes"},
		{"output", "entries", "", whole, "is <what>_count"},
		{"output", "skipped_count", "", whole, "is unsafe_count"},
		{"output", "signature_timestamp", "", text, "is signed_at"},
		{"output", "is_valid", "", flag, "is valid"},
		{"configuration", "if_exists", "overwrite", values("overwrite", "skip"), "if_exists of file.copy is"},
		{"configuration", "if_exists", "fail", values("overwrite", "skip", "fail"), "if_exists of file.copy is"},
		{"configuration", "ignore_missing", "true", flag, "ignore_missing of depot.fetch is"},
		{"configuration", "timeout_seconds", "3600", text, "timeout_seconds of azure_function.execute is"},
		{"output", "file_count", "", text, "file_count of"},
		{"output", "skipped", "", text, "skipped of file.copy is"},
	} {
		k := stepKey{"x.put", c.in, courier.Property{Name: c.name, Default: c.def, Schema: c.schema}}
		found := func(bad string) bool {
			return strings.HasPrefix(bad, "x.put: "+c.name+" of") && strings.Contains(bad, c.want)
		}
		if bad := badKeys(append(slices.Clone(keys), k)); len(bad) <= len(before) || !slices.ContainsFunc(bad, found) {
			t.Errorf("%s with the default %q is not refused: %q", c.name, c.def, bad)
		}
	}
	if bad := badKeys(slices.DeleteFunc(slices.Clone(keys), func(k stepKey) bool { return k.step == "file.verify" })); !slices.Contains(bad, `the variant of algorithm in ^file\.verify$ isn't needed`) {
		t.Errorf("a variant without a use is not refused: %q", bad)
	}
}
