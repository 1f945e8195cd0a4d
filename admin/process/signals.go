package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// WatchSignals calls cancel at the first SIGINT or SIGTERM and ends the process at
// the second. If ctx has ended on its own, it ends the process at the first. It
// stops when end is called.
func WatchSignals(ctx context.Context, cancel func()) (end func()) {
	signals := make(chan os.Signal, 2) // room for both, however close together they come
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		case <-ended:
		}
		select {
		case <-signals:
			os.Exit(1)
		case <-ended:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
		cancel()
	}
}
