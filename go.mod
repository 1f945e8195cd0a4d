module kist

go 1.26.8

require (
	github.com/google/uuid v1.6.0
	github.com/matryer/is v1.4.1
	github.com/swaggest/swgui v1.8.5
	go.etcd.io/bbolt v1.5.0
	golang.org/x/crypto v0.58.0
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.43.0
)
