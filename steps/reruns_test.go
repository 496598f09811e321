package steps_test

import (
	"maps"
	"strings"
)

// A rerunCase is a job for TestRetryJob.
type rerunCase struct {
	// files are there at the beginning: in B, which steps may use besides the
	// workspace, and on the servers. A name that ends in a slash is a directory.
	files  map[string]string
	before []object // steps that prepare more of them, each as a job of its own
	steps  []object
	// takes is behind how many steps the job can't be begun again, since one has
	// taken away what one before it reads; 0 means that it always can.
	takes int
	// sourceChanges says that the job has to read what another has put in place of
	// what it took away, so that it can't complete, or takes that as it is.
	sourceChanges bool
}

func step(typ string, config object) object { return object{"type": typ, "config": config} }

// reruns are jobs with all step types that take something away, alone and behind
// others whose files they take.
func reruns() map[string]rerunCase {
	all := make(map[string]rerunCase)
	maps.Copy(all, localReruns())
	maps.Copy(all, packingReruns())
	for _, p := range []string{"sftp", "ftp"} {
		for name, c := range remoteReruns(p) {
			all[p+" "+name] = c
		}
	}
	return all
}

func localReruns() map[string]rerunCase {
	few := map[string]string{"B/in/1.csv": "one", "B/in/2.csv": "two", "B/in/x/3.csv": "three", "B/in/x/4.txt": "four"}
	source := map[string]string{"B/f": "content"}
	copied := step("file.copy", object{"source_path": "$B/f", "destination_path": "w/f"})
	return map[string]rerunCase{
		"move": {files: source, steps: []object{
			step("file.move", object{"source_path": "$B/f", "destination_path": "$B/done/"}),
		}},
		"move into the workspace": {files: source, steps: []object{
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
			step("file.rename", object{"source_path": "w/f", "destination_path": "w/g"}),
		}},
		"move what was copied": {files: source, steps: []object{
			copied,
			step("file.move", object{"source_path": "w/f", "destination_path": "$B/out/"}),
		}},
		"move into the workspace and out": {files: source, steps: []object{
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
			step("file.move", object{"source_path": "w/f", "destination_path": "$B/g"}),
		}},
		"move many": {files: few, steps: []object{
			step("file.move", object{"source_path": "$B/in/**", "destination_path": "$B/done/"}),
			step("file.list", object{"path": "$B/done"}),
		}},
		"wait and move": {files: source, sourceChanges: true, steps: []object{
			step("file.wait", object{"path": "$B/f", "timeout_seconds": 5, "on_timeout": "continue"}),
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
		}},
		"delete": {files: source, steps: []object{
			step("file.delete", object{"path": "$B/f"}),
		}},
		"delete what was copied": {files: source, steps: []object{
			step("file.copy", object{"source_path": "$B/f", "destination_path": "$B/g"}),
			step("file.delete", object{"path": "$B/g"}),
		}},
		"delete the source": {takes: 3, files: source, steps: []object{
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
			step("file.copy", object{"source_path": "w/f", "destination_path": "$B/g"}),
			step("file.delete", object{"path": "w/f"}),
		}},
		"delete a directory": {files: few, steps: []object{
			step("file.delete", object{"path": "$B/in", "recursive": true}),
		}},
		"delete a directory that was made": {files: source, steps: []object{
			step("file.mkdir", object{"path": "$B/new/below"}),
			step("file.copy", object{"source_path": "$B/f", "destination_path": "$B/new/below/f"}),
			step("file.delete", object{"path": "$B/new", "recursive": true}),
		}},
		"delete an empty directory that was made": {files: source, steps: []object{
			step("file.mkdir", object{"path": "$B/new/below"}),
			step("file.delete", object{"path": "$B/new", "recursive": true}),
		}},
		"delete a directory that a copy made": {files: source, steps: []object{
			step("file.copy", object{"source_path": "$B/f", "destination_path": "$B/new/below/f"}),
			step("file.delete", object{"path": "$B/new", "recursive": true}),
		}},
		"split, join and delete": {takes: 3, files: source, steps: []object{
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
			step("file.split", object{"source_path": "w/f", "output_directory": "parts", "part_bytes": 3, "manifest_format": "json"}),
			step("file.delete", object{"path": "w/f"}),
			step("file.join", object{"manifest_path": "parts/f.manifest.json", "output_path": "$B/out/f"}),
			step("file.delete", object{"path": "parts", "recursive": true}),
		}},
		"sum and verify": {takes: 5, files: source, steps: []object{
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
			step("file.hash", object{"source_path": "w/f", "output_path": "w/SHA256SUMS"}),
			step("file.verify", object{"manifest_path": "w/SHA256SUMS"}),
			step("file.copy", object{"source_path": "w/f", "destination_path": "$B/f2"}),
			step("file.delete", object{"path": "w/f"}),
		}},
		"run a program": {takes: 3, files: source, steps: []object{
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
			step("exec.run", object{"program": "sh", "args": []string{"-c", "cat > g"}, "stdin_path": "w/f"}),
			step("file.delete", object{"path": "w/f"}),
		}},
		"keep": {files: source, steps: []object{
			step("depot.fetch", object{"ignore_missing": true}),
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
			step("depot.keep", object{"source_path": "w/*"}),
		}},
		"call a function": {files: source, steps: []object{
			step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"}),
			step("azure_function.execute", object{"connection_id": "app", "function_name": "say"}),
			step("http.request", object{"url": "http://web/api/x", "method": "POST", "body_path": "w/f", "output_path": "w/answer"}),
			step("file.move", object{"source_path": "w/answer", "destination_path": "$B/answer"}),
		}},
	}
}

// packingReruns pack and unpack, and delete what was packed or unpacked.
func packingReruns() map[string]rerunCase {
	all := make(map[string]rerunCase)
	files := map[string]string{"B/d/f": "content", "B/d/x/g": "more"}
	remove := func(p string) object {
		return step("file.delete", object{"path": p, "recursive": true})
	}
	for _, a := range []struct {
		pack, unpack, name string
	}{{"file.zip", "file.unzip", "d.zip"}, {"file.tar", "file.untar", "d.tar"}} {
		pack := step(a.pack, object{"source_path": "$B/d", "output_path": "$B/" + a.name})
		all[a.pack+" and delete"] = rerunCase{takes: 2, files: files, steps: []object{pack, remove("$B/d")}}
		for name, to := range map[string]string{"": "$B/out/new", " into the workspace": "new"} {
			unpack := step(a.unpack, object{"archive_path": "$B/" + a.name, "output_directory": to})
			all[a.unpack+name] = rerunCase{files: files, before: []object{pack}, steps: []object{unpack}}
			all[a.unpack+name+" and delete"] = rerunCase{files: files, before: []object{pack}, sourceChanges: true, steps: []object{unpack, remove("$B/" + a.name)}}
			all[a.unpack+name+" what was moved"] = rerunCase{files: files, before: []object{pack}, steps: []object{
				step("file.move", object{"source_path": "$B/" + a.name, "destination_path": "w/"}),
				step(a.unpack, object{"archive_path": "w/" + a.name, "output_directory": to}), remove("w/" + a.name),
			}}
			all[a.unpack+name+" and move"] = rerunCase{files: files, before: []object{pack}, steps: []object{
				unpack, step("file.move", object{"source_path": to + "/d/f", "destination_path": "$B/done/f"}),
			}}
			all[a.unpack+name+" and delete what was unpacked"] = rerunCase{files: files, before: []object{pack}, steps: []object{unpack, remove(to)}}
		}
	}
	source := map[string]string{"B/f": "content"}
	moved := step("file.move", object{"source_path": "$B/f", "destination_path": "w/f"})
	for _, c := range []struct {
		pack, unpack, name string
	}{{"file.gzip", "file.gunzip", "f.gz"}, {"file.zstd", "file.unzstd", "f.zst"}} {
		pack := step(c.pack, object{"source_path": "$B/f", "output_path": "$B/" + c.name})
		unpack := step(c.unpack, object{"source_path": "$B/" + c.name, "output_path": "$B/out/f"})
		all[c.pack+" and delete"] = rerunCase{takes: 2, files: source, steps: []object{pack, remove("$B/f")}}
		all[c.unpack+" and delete"] = rerunCase{takes: 2, files: source, before: []object{pack}, steps: []object{unpack, remove("$B/" + c.name)}}
		all[c.pack+" and delete what was moved"] = rerunCase{takes: 3, files: source, steps: []object{
			moved, step(c.pack, object{"source_path": "w/f", "output_path": "w/" + c.name}), remove("w/f"),
			step(c.unpack, object{"source_path": "w/" + c.name, "output_path": "$B/out/f"}), remove("w/" + c.name),
		}}
	}
	all["encrypt and decrypt"] = rerunCase{takes: 3, files: source, steps: []object{
		moved, step("pgp.encrypt", object{"source_path": "w/f", "output_path": "w/f.pgp", "recipient_key_ids": []string{"us"}, "signing_key_id": "us"}), remove("w/f"),
		step("pgp.decrypt", object{"source_path": "w/f.pgp", "output_path": "$B/out/f"}), remove("w/f.pgp"),
	}}
	all["sign and verify"] = rerunCase{takes: 5, files: source, steps: []object{
		moved, step("pgp.sign", object{"source_path": "w/f", "output_path": "w/f.sig", "signing_key_id": "us"}),
		step("pgp.verify", object{"source_path": "w/f", "detached_signature_path": "w/f.sig"}), remove("w/f.sig"),
		step("file.move", object{"source_path": "w/f", "destination_path": "$B/out/f"}),
	}}
	return all
}

// remoteReruns are for the protocol p, which is the directory of its server too.
func remoteReruns(p string) map[string]rerunCase {
	on := func(verb string, more ...string) object {
		config := object{"connection_id": p}
		for i := 0; i < len(more); i += 2 {
			config[more[i]] = more[i+1]
			if more[i+1] == "true" {
				config[more[i]] = true
			}
		}
		return step(p+"."+verb, config)
	}
	rename := func(from, to string) object {
		return on("rename", "source_path", from, "destination_path", to)
	}
	local := map[string]string{"B/1.csv": "one", "B/2.csv": "two", "B/new/below/f": "deep", p + "/in/": ""}
	served := map[string]string{p + "/in/1.csv": "one", p + "/in/2.csv": "two", p + "/in/d/3.csv": "three", p + "/empty/": ""}
	copied := step("file.copy", object{"source_path": "$B/*.csv", "destination_path": "w/"})
	put := on("upload", "local_path", "$B/**/f", "remote_path", "in/") // which makes directories
	all := map[string]rerunCase{
		"list, stat and rename": {files: served, sourceChanges: true, steps: []object{
			on("list", "remote_path", "in"), on("stat", "remote_path", "in"), rename("in/1.csv", "in/4.csv"),
		}},
		"rename":             {files: served, steps: []object{rename("in/1.csv", "in/4.csv")}},
		"rename there":       {files: served, steps: []object{rename("in/1.csv", "in/4.csv"), rename("in/4.csv", "in/d/5.csv")}},
		"rename a directory": {files: served, sourceChanges: true, steps: []object{rename("in/d", "in/e")}},
		"delete":             {files: served, steps: []object{on("delete", "remote_path", "in/1.csv")}},
		"delete many":        {files: served, steps: []object{on("delete", "remote_path", "in", "pattern", "*.csv")}},
		"rmdir":              {files: served, steps: []object{on("rmdir", "remote_path", "empty")}},
		"rmdir recursive":    {files: served, steps: []object{on("rmdir", "remote_path", "in", "recursive", "true")}},
		"mkdir and rmdir": {files: served, steps: []object{
			on("mkdir", "remote_path", "new"), on("rmdir", "remote_path", "new"),
		}},
		"mkdir and rmdir above": {files: served, steps: []object{
			on("mkdir", "remote_path", "new/below"), on("rmdir", "remote_path", "new", "recursive", "true"),
		}},
		"upload and delete":              {files: local, steps: []object{put, on("delete", "remote_path", "in/new/below/f")}},
		"upload, delete and rmdir":       {files: local, steps: []object{put, on("delete", "remote_path", "in/new/below/f"), on("rmdir", "remote_path", "in/new/below")}},
		"upload and rmdir recursive":     {files: local, steps: []object{put, on("rmdir", "remote_path", "in/new", "recursive", "true")}},
		"upload, rename and rmdir":       {files: local, steps: []object{put, rename("in/new/below/f", "in/f"), on("rmdir", "remote_path", "in/new/below")}},
		"upload, rename and rename back": {files: local, steps: []object{put, rename("in/new/below/f", "in/f"), rename("in/f", "in/g")}},
		"upload, move and delete": {files: local, steps: []object{
			put, on("download", "remote_path", "in/new/below/f", "local_path", "w/g", "after_transfer", "move", "move_to", "moved/here"),
			on("delete", "remote_path", "moved/here/f"), on("rmdir", "remote_path", "moved/here"),
		}},
		"download, move and move on": {files: served, steps: []object{
			on("download", "remote_path", "in/1.csv", "local_path", "w/", "after_transfer", "move", "move_to", "done"),
			rename("done/1.csv", "done/2.csv"), on("delete", "remote_path", "done/2.csv"), on("rmdir", "remote_path", "done"),
		}},
	}
	for _, after := range []string{"delete", "move", "archive"} {
		action := []string{"after_transfer", after}
		if after != "delete" {
			action = append(action, "move_to", "done")
		}
		for name, to := range map[string]string{"": "$B/got/", " into the workspace": "w/"} {
			fetch := on("download", append([]string{"remote_path", "in", "pattern", "*.csv", "local_path", to}, action...)...)
			all["download, "+after+name] = rerunCase{files: served, steps: []object{fetch}}
			all["download, "+after+name+" and move"] = rerunCase{files: served, steps: []object{
				fetch, step("file.move", object{"source_path": to + "1.csv", "destination_path": "$B/out/"}),
			}}
			all["download, "+after+name+" and delete"] = rerunCase{takes: 3, files: served, steps: []object{
				fetch, step("file.copy", object{"source_path": to + "*.csv", "destination_path": "$B/out/"}),
				step("file.delete", object{"path": strings.TrimSuffix(to, "/"), "recursive": true}),
			}}
		}
		all["download, "+after+" to where the attempt is"] = rerunCase{files: served, steps: []object{
			on("download", append([]string{"remote_path", "in", "pattern", "*.csv"}, action...)...),
		}}
		if after != "delete" {
			action[3] = "$B/done"
		}
		send := func(from string) object {
			return on("upload", append([]string{"local_path", from, "remote_path", "in/"}, action...)...)
		}
		all["upload, "+after] = rerunCase{files: local, steps: []object{send("$B/*.csv")}}
		all["upload what was copied, "+after] = rerunCase{files: local, steps: []object{copied, send("w/*.csv")}}
		all["upload what was moved, "+after] = rerunCase{files: local, steps: []object{
			step("file.move", object{"source_path": "$B/*.csv", "destination_path": "w/"}), send("w/*.csv"),
		}}
	}
	return all
}
