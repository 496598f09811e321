package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/courierhq/courier"
)

// A reportConfig is the configuration of invoices.report.
type reportConfig struct {
	Path        string       `json:"path" courier:"required" doc:"the file of the report"`
	Outcome     string       `json:"outcome" courier:"required"`
	Why         string       `json:"why" doc:"what has failed; empty if nothing has"`
	Quarantined []reportItem `json:"quarantined" doc:"the files that a rescue has dealt with"`
	Failed      []reportItem `json:"failed" doc:"the files that are left"`
}

// A reportItem is a file with its error, in the form of job.failed and job.rescued.
type reportItem struct {
	Index   int    `json:"index"`
	Label   string `json:"label"`
	Step    string `json:"step"`
	Class   string `json:"class"`
	Message string `json:"message"`
}

// A reportOutput has the counts of the report.
type reportOutput struct {
	Lines int `json:"lines"`
}

// report writes the result of each file, whatever the outcome of the pipeline. A second run
// replaces the report of the first.
func report(_ context.Context, _ *courier.Context, cfg reportConfig) (out reportOutput, err error) {
	var text strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&text, format+"\n", args...)
		out.Lines++
	}
	line("%s", cfg.Outcome)
	if cfg.Why != "" {
		line("because: %s", cfg.Why)
	}
	for _, i := range cfg.Quarantined {
		line("in quarantine: %s: %s", i.Label, i.Message)
	}
	for _, i := range cfg.Failed {
		line("failed: %s: %s", i.Label, i.Message)
	}
	part := cfg.Path + ".part"
	if err := os.WriteFile(part, []byte(text.String()), 0o600); err != nil {
		return out, err
	}
	return out, os.Rename(part, cfg.Path)
}
