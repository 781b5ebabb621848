package embedded

import (
	"context"
	"fmt"
	"time"

	"lazaret/internal/natsserver"
)

// roomEvery is the time between two checks of the free disk space.
const roomEvery = 250 * time.Millisecond

// watchRoom makes the streams refuse messages while the disk is nearly full.
func (p *Pipeline) watchRoom(ctx context.Context) {
	t := time.NewTicker(roomEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		free, all, err := natsserver.Free(p.cfg.Data)
		if err != nil {
			p.cfg.Log.Warn("the free disk space is unknown", "err", err)
			continue
		}
		full := p.NoRoom() != nil
		reserve := natsserver.Reserve(all)
		// The streams accept messages again only when the free space is a quarter more than the reserve. Otherwise they
		// would switch back and forth.
		if enough := free > reserve && (!full || free > reserve+reserve/4); enough != full {
			continue
		}
		if full {
			// If a write has failed meanwhile, its stream works again only after a restart of the server. The restarted
			// server accepts messages.
			err = p.Server.Restart()
		} else {
			err = p.Server.Admit(false)
		}
		if err != nil {
			msg := "the disk is nearly full, but the streams still accept messages: the limit could not be set"
			if full {
				msg = "the disk has space again, but the server could not be restarted and does not run"
			}
			p.cfg.Log.Error(msg, "err", err)
			continue
		}
		var why error
		if !full {
			why = fmt.Errorf("%w: %d MiB are free, %d MiB must stay free: publishers are refused and "+
				"verdicts are hold "+
				"until there is space", natsserver.ErrNoRoom, free>>20, reserve>>20)
		}
		msg := "the disk has space again: the streams accept messages"
		if why != nil {
			msg = "the disk is nearly full: the streams refuse messages"
		}
		p.cfg.Log.Error(msg, "free", free, "reserve", reserve)
		p.mu.Lock()
		p.noRoom = why
		p.mu.Unlock()
	}
}

// NoRoom returns an error if the streams refuse messages because the disk is nearly full.
func (p *Pipeline) NoRoom() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.noRoom
}
