package definition

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/format"
)

// Text returns a *[courier.Job] or a *[chain.Chain] as text for an editor. The text has no version,
// because saving it creates a new one.
func Text(d courier.Definition) string {
	switch v := d.(type) {
	case *courier.Job:
		plain := *v
		plain.Version, d = 0, &plain
	case *chain.Chain:
		plain := *v
		plain.Version, d = 0, &plain
	}
	return format.JSON(d)
}
