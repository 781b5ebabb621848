package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"lazaret/internal/backup"
	"lazaret/internal/natsserver"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// copy stops the server, copies the data folder without the auditor's log, and starts the server again.
func (p *Pipeline) copy(run string, keys bool) streams.EraseReply {
	out := streams.EraseReply{Run: run, Done: true, Dir: filepath.Join(backup.CopiesDir(p.cfg.Data), run)}
	trimmed, err := p.trimmed()
	if err == nil {
		var down error
		err, down = p.Server.WhileStopped(func() (err error) {
			out.NotCopied, err = backup.Copy(p.cfg.Data, out.Dir, keys)
			return err
		})
		if down != nil {
			p.fail("nats-server", down)
		}
		err = errors.Join(err, down)
	}
	if err == nil && trimmed > 0 && !p.cfg.ServerOnly {
		err = backup.CheckSnapshots(p.cfg.Data, out.Dir, p.withState(), trimmed)
	}
	if err != nil {
		out.Error = errors.Join(err, os.RemoveAll(out.Dir)).Error()
	}
	return out
}

// trimmed returns the ledger sequence up to which entries were trimmed. If none were, it returns 0.
func (p *Pipeline) trimmed() (uint64, error) {
	nc, err := p.Server.Connect(natsserver.RoleRetention)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	ctx, cancel := context.WithTimeout(context.Background(), eraseTimeout)
	defer cancel()
	return stage.Hole(ctx, js, 1)
}

// withState returns the names of those stages of this process whose state a backup needs if the ledger was trimmed.
func (p *Pipeline) withState() []string {
	stages := []string{streams.StageIngest, streams.StageArbiter}
	for _, g := range p.groups() {
		stages = append(stages, streams.SentinelStage(g))
	}
	return stages
}
