package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
)

// Mkdir is the step type file.mkdir. It makes a directory and its missing
// parent directories. An existing directory is not an error.
type Mkdir struct{}

// MkdirConfig is the configuration of file.mkdir.
type MkdirConfig struct {
	Path string `json:"path" courier:"required,path" doc:"the directory to make"`
}

// MkdirOutput is the output of file.mkdir.
type MkdirOutput struct {
	CreatedDirectory string `json:"created_directory" doc:"path of the directory"`
}

// Execute makes the directory. When it returns, the directory survives a power
// cut.
func (Mkdir) Execute(ctx context.Context, job *courier.Context, cfg MkdirConfig) (MkdirOutput, error) {
	if ctx.Err() != nil {
		return MkdirOutput{}, context.Cause(ctx)
	}
	p, err := at(job, cfg.Path)
	if err != nil {
		return MkdirOutput{}, err
	}
	info, err := p.root.Stat(p.rel)
	switch {
	case err == nil && !info.IsDir():
		return MkdirOutput{}, courier.Permanent(fmt.Errorf("%q exists and is %s, so no directory can be made there", p.name, localfile.Kind(info.Mode())))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return MkdirOutput{}, localfile.Error(p.name, err)
	case err != nil:
		if err := errors.Join(job.Files().MkdirAll(p.name), produced(job, p)); err != nil {
			return MkdirOutput{}, localfile.Error(p.name, err)
		}
	}
	// An earlier attempt may have made it and died before this.
	if err := make(dirSet).sync(p.root, p.rel); err != nil {
		return MkdirOutput{}, localfile.Error(p.name, err)
	}
	return MkdirOutput{p.name}, nil
}

// Validate checks the path.
func (Mkdir) Validate(ctx context.Context, job *courier.Context, cfg MkdirConfig) error {
	return checkTarget(job, "path", cfg.Path)
}
