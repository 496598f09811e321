package main

import (
	"bufio"
	"context"
	"time"

	"github.com/courierhq/courier"
)

// A CountConfig is the configuration of text.count.
type CountConfig struct {
	Path string `json:"path" courier:"required,path" doc:"the file to count"`
}

// A CountOutput is what text.count leaves for later steps.
type CountOutput struct {
	Lines int `json:"lines"`
}

// count counts the lines of a file, slowly.
func count(ctx context.Context, job *courier.Context, cfg CountConfig) (CountOutput, error) {
	var out CountOutput
	f, err := job.Files().Open(cfg.Path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); out.Lines++ {
	}
	select {
	case <-time.After(time.Second): // so that there is time for kill -9
		return out, nil
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
}
