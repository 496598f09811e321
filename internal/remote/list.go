package remote

import (
	"context"

	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/steps/fileserver"
)

func listSearch(cfg fileserver.ListConfig) Search {
	return Search{Pattern: glob.Whole(cfg.Pattern, cfg.Glob).Escaped(), Directories: cfg.IncludeDirectories, Unsafe: cfg.OnUnsafeName, Links: cfg.FollowLinks}
}

// List lists a directory. It changes nothing.
func List(ctx context.Context, a Account, cfg fileserver.ListConfig) (fileserver.ListOutput, error) {
	var out fileserver.ListOutput
	var found []Entry
	err := a.checkSearch(cfg.RemotePath, listSearch(cfg))
	if err == nil {
		err = a.Use(ctx, func(s Server) (err error) {
			found, out.UnsafeCount, out.NotReadyCount, err = Readiness{StableSeconds: cfg.StableSeconds}.Find(ctx, a.Job, listSearch(cfg), s, cfg.RemotePath)
			return err
		})
	}
	out.FileList, out.FileCount = make([]fileserver.File, len(found)), len(found)
	for i, e := range found {
		out.FileList[i] = fileserver.File{Name: e.Name, Path: e.Path, Size: e.Size, Modified: e.Modified, IsDirectory: e.IsDir}
	}
	return out, err
}

// ValidateList logs in and checks that the directory can be listed.
func ValidateList(ctx context.Context, a Account, cfg fileserver.ListConfig) error {
	if err := a.checkSearch(cfg.RemotePath, listSearch(cfg)); err != nil {
		return err
	}
	return a.Validate(ctx, func(s Server) error {
		if a.Job.Unresolved("remote_path") {
			return nil
		}
		return s.CheckDirectory(ctx, cfg.RemotePath)
	})
}
