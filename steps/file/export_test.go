package file

import "github.com/courierhq/courier"

// RegisterWith is Register with steps that call before ahead of each effect.
func RegisterWith(r *courier.Registry, limits Limits, before func(effect string)) {
	courier.Register(r, "file.copy", Copy{Limits: limits}, nil)
	courier.Register(r, "file.move", Move{Limits: limits, before: before}, &courier.TypeOptions{Aliases: []string{"file.rename"}})
	courier.Register(r, "file.delete", Delete{Limits: limits, before: before}, nil)
	courier.Register(r, "file.list", List{Limits: limits}, nil)
	courier.Register(r, "file.zip", Zip{Limits: limits}, nil)
	courier.Register(r, "file.unzip", Unzip{Limits: limits, before: before}, nil)
	courier.Register(r, "file.gzip", Gzip{}, nil)
	courier.Register(r, "file.gunzip", Gunzip{Limits: limits}, nil)
	courier.Register(r, "file.zstd", Zstd{}, nil)
	courier.Register(r, "file.unzstd", Unzstd{Limits: limits}, nil)
	courier.Register(r, "file.tar", Tar{Limits: limits}, nil)
	courier.Register(r, "file.untar", Untar{Limits: limits, before: before}, nil)
	courier.Register(r, "file.hash", Hash{Limits: limits}, nil)
	courier.Register(r, "file.verify", Verify{Limits: limits}, nil)
	courier.Register(r, "file.split", Split{Limits: limits}, nil)
	courier.Register(r, "file.join", Join{Limits: limits}, nil)
	courier.Register(r, "file.mkdir", Mkdir{}, nil)
	courier.Register(r, "file.wait", Wait{Limits: limits}, nil)
}
