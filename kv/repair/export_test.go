package repair

import (
	"time"
)

// The names below give tests outside of the package access to its internals.

func WithStep(o RepairOptions, step func(string) error) RepairOptions {
	o.step = step
	return o
}

func WithEnv(o RepairOptions, env ...string) RepairOptions {
	o.env = env
	return o
}

func WithTimeout(o RepairOptions, timeout time.Duration) RepairOptions {
	o.timeout = timeout
	return o
}

var LossyRepairs = lossyRepairs
