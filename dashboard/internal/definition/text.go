package definition

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
)

// Text returns a job as the text that people edit. The version is not a part of it:
// saving makes a new one.
func Text(job courier.Job) (string, error) {
	job.Version = 0
	raw, err := job.MarshalJSON()
	if err != nil {
		return "", err
	}
	return format.Editable(format.IndentJSON(raw)), nil
}
