package process

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Supervise tells systemd that the server is ready, if systemd has started the
// process and asks for it (sd_notify(3)). Until ctx ends, it also tells systemd
// twice in each watchdog interval that the server lives, for as long as lives
// returns true; systemd restarts a server that does not. At the end it says that
// the server is stopping.
func Supervise(ctx context.Context, lives func(context.Context) bool, log *slog.Logger) {
	tell := func(state string) bool {
		told, err := daemon.SdNotify(false, state)
		if err != nil {
			log.Error("systemd cannot be told", "state", state, "error", err)
		}
		return told
	}
	if !tell(daemon.SdNotifyReady) {
		return
	}
	defer tell(daemon.SdNotifyStopping)
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Error("the watchdog's interval cannot be read", "error", err)
	}
	if interval <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(interval / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if lives(ctx) {
				tell(daemon.SdNotifyWatchdog)
			} else if ctx.Err() == nil {
				log.Error("the storage does not answer; the watchdog is not told that all is well")
			}
		}
	}
}
