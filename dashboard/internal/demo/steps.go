package demo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/courierhq/courier"
)

// A fetchConfig names files on a server of a partner. No connection is made.
type fetchConfig struct {
	Connection string   `json:"connection_id" courier:"required" doc:"the partner"`
	Directory  string   `json:"directory" doc:"where the files are"`
	Pattern    string   `json:"pattern" default:"*" doc:"which files"`
	Files      []string `json:"files" doc:"the files that the server pretends to have"`
	Fail       string   `json:"fail" doc:"what the server answers with; empty means that all goes well"`
	Class      string   `json:"class" doc:"the error class of that; empty means none"`
}

type fetchOutput struct {
	FileList []string `json:"file_list"`
	Count    int      `json:"count"`
	Bytes    int64    `json:"bytes"`
}

// fetch reports the files as received.
func fetch(_ context.Context, job *courier.Context, cfg fetchConfig) (out fetchOutput, err error) {
	job.Log().Info("connected", "connection", cfg.Connection, "directory", cfg.Directory)
	if cfg.Fail != "" {
		job.Log().Warn("the server has refused", "answer", cfg.Fail)
		err := courier.Permanent(fmt.Errorf("connection %s: %s", cfg.Connection, cfg.Fail))
		if cfg.Class != "" {
			err = courier.WithClass(err, courier.Reason(cfg.Class))
		}
		return out, err
	}
	for i, name := range cfg.Files {
		f := courier.File{Path: path.Join("/", cfg.Directory, name), Size: int64(48_213 + 7919*i), Connection: cfg.Connection, Received: true}
		if err = job.Files().ReportRemote(f); err != nil {
			return out, err
		}
		out.FileList, out.Bytes = append(out.FileList, name), out.Bytes+f.Size
		job.Progress(out.Bytes, 0, name)
	}
	out.Count = len(out.FileList)
	job.Log().Info("received", "files", out.Count, "bytes", out.Bytes)
	return out, nil
}

// A sendConfig names one file for a server of a partner.
type sendConfig struct {
	Connection string `json:"connection_id" courier:"required" doc:"the partner"`
	Path       string `json:"path" courier:"required" doc:"where the file goes"`
	Password   string `json:"password" doc:"of the partner's account"`
}

type sendOutput struct {
	Path string `json:"path"`
}

// send reports the file as sent.
func send(_ context.Context, job *courier.Context, cfg sendConfig) (sendOutput, error) {
	err := job.Files().ReportRemote(courier.File{Path: cfg.Path, Size: 48_213, Connection: cfg.Connection})
	return sendOutput{cfg.Path}, err
}

// A workConfig says how long a step takes and how it ends.
type workConfig struct {
	Seconds float64 `json:"seconds" doc:"how long it takes"`
	Bytes   int64   `json:"bytes" doc:"how many bytes it says that it has moved"`
	Subject any     `json:"subject" doc:"what it works on"`
	Fail    string  `json:"fail" doc:"the message with which it fails; empty means that it does not"`
	Passing bool    `json:"passing" doc:"the failure may pass"`
	Keep    string  `json:"keep" doc:"a file that it leaves in the workspace; empty means none"`
	Only    any     `json:"only" doc:"the one subject with which it fails; none means any"`
}

type workOutput struct {
	Subject any   `json:"subject"`
	Total   int64 `json:"total"`
}

// work takes its time, and reports its progress ten times.
func work(ctx context.Context, job *courier.Context, cfg workConfig) (workOutput, error) {
	if cfg.Seconds > 0 {
		job.Log().Info("working", "subject", cfg.Subject)
		job.Stage("transferring")
	}
	if cfg.Keep != "" {
		if err := keep(job, cfg.Keep); err != nil {
			return workOutput{}, err
		}
	}
	for i := range int64(10) {
		if cfg.Seconds <= 0 {
			break
		}
		job.Progress(cfg.Bytes*(i+4)/16, cfg.Bytes, fmt.Sprint(cfg.Subject))
		select {
		case <-time.After(time.Duration(cfg.Seconds * float64(time.Second) / 10)):
		case <-ctx.Done():
			return workOutput{}, context.Cause(ctx)
		}
	}
	if cfg.Fail != "" && (cfg.Only == nil || fmt.Sprint(cfg.Only) == fmt.Sprint(cfg.Subject)) {
		if err := errors.New(cfg.Fail); !cfg.Passing {
			return workOutput{}, courier.Permanent(err)
		} else {
			return workOutput{}, err
		}
	}
	return workOutput{cfg.Subject, 48_213}, nil
}

// A listConfig names the server whose files are listed.
type listConfig struct {
	Connection string `json:"connection_id" courier:"required" doc:"the partner"`
}

// list is the step type that tests a connection: its dry run says that the server answers.
type list struct{}

func (l list) Execute(ctx context.Context, job *courier.Context, cfg listConfig) (struct{}, error) {
	return struct{}{}, l.Validate(ctx, job, cfg)
}

func (list) Validate(_ context.Context, job *courier.Context, cfg listConfig) error {
	job.Log().Info("the server is Example 3.1", "connection", cfg.Connection)
	return nil
}

// keep leaves a file.
func keep(job *courier.Context, name string) error {
	w, err := job.Files().Create(name)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.WriteString("delivery note 1\n"); err != nil {
		return err
	}
	return w.Commit()
}

// registry returns the step types of the jobs, and the one that tests connections of FTPS.
func registry() *courier.Registry {
	r := new(courier.Registry)
	courier.RegisterFunc(r, "demo.fetch", fetch, &courier.TypeOptions{Doc: "Receives files of a partner."})
	courier.RegisterFunc(r, "demo.send", send, &courier.TypeOptions{Doc: "Sends a file to a partner."})
	courier.RegisterFunc(r, "demo.work", work, &courier.TypeOptions{Doc: "Takes its time."})
	courier.Register(r, "ftps.list", list{}, &courier.TypeOptions{Doc: "Lists files of a partner."})
	return r
}
