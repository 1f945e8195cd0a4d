package control

import (
	"net/http"

	"kist/admin/ops"
)

// SweepInput is the body of POST /gc.
type SweepInput struct{ Now bool }

// SweepResult is what a sweep did, and what it could not do.
type SweepResult struct {
	ops.Swept
	Problem string `json:"error,omitempty"`
}

// sweep removes contents that no record has any more.
func (v handler) sweep(r *http.Request, in SweepInput) (SweepResult, error) {
	swept, err := v.Sweep(r.Context(), in.Now)
	if err != nil && swept != (ops.Swept{}) {
		return SweepResult{swept, err.Error()}, nil // what was done is returned, too
	}
	return SweepResult{Swept: swept}, err
}
