package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/bench"
	"lazaret/internal/cli/verb"
	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

func init() { Verbs.Add("bench", auditCommand) }

func auditCommand(a *verb.App) *cobra.Command {
	var o bench.AuditOptions
	var json, noFollow bool
	c := &cobra.Command{
		Use:   "audit",
		Short: "Measure the tamper-evident log (exit 2 when a budget is missed)",
		Long: `Append encrypted entries to a log on disk, with its Merkle tree and a sync for each
batch, and verify the log. The rate of SHA-256 on the same processors is measured in
alternation with the verification. Then an auditor follows a ledger in an embedded NATS
server.`,
		Example: "  lazaret bench audit --json\n  lazaret bench audit --batch 100 --no-follow",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "lazaret-bench-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			o.Dir = dir
			if !noFollow {
				o.Follow = followLedger
			}
			rep, err := bench.Audit(cmd.Context(), o)
			if err != nil {
				return err
			}
			return printBench(cmd, json, rep, rep.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&o.Entries, "entries", 300_000, "entries of each round")
	f.IntVar(&o.Size, "size", 1024, "payload, in `BYTES`")
	f.IntVar(&o.Batch, "batch", 4096, "number of entries per sync")
	f.IntVar(&o.Rounds, "rounds", 3, "number of rounds; results are medians")
	f.IntVar(&o.Proofs, "proofs", 2000, "number of proofs to time")
	f.BoolVar(&noFollow, "no-follow", false, "do not measure an auditor that follows a ledger")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

// followLedger fills a ledger and measures how fast an auditor chains it.
func followLedger(ctx context.Context, entries, size int) (float64, error) {
	data, err := os.MkdirTemp("", "lazaret-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(data)
	// The server's sync mode affects only how fast the ledger is filled, which is not measured.
	srv, err := natsserver.Start(natsserver.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		return 0, err
	}
	defer srv.Shutdown()
	if err := fillLedger(ctx, srv, entries, size); err != nil {
		return 0, err
	}
	private, _, err := keys.Generate("bench")
	if err != nil {
		return 0, err
	}
	file := filepath.Join(data, "bench.key")
	if err := keys.WritePrivate(file, private); err != nil {
		return 0, err
	}
	signer, err := keys.LoadSigner(file)
	if err != nil {
		return 0, err
	}
	nc, err := srv.Connect(natsserver.RoleAuditor)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := auditor.Open(ctx, auditor.Config{Conn: nc, Dir: filepath.Join(data, "audit"), Signer: signer,
		MasterKey: make([]byte, 32), Ready: cancel})
	if err != nil {
		return 0, err
	}
	defer a.Close()
	start := time.Now()
	if err := a.Follow(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if next := a.Next(); next != uint64(entries)+1 {
		return 0, fmt.Errorf("the auditor stopped at ledger entry %d of %d", next-1, entries)
	}
	return float64(entries) / took.Seconds(), nil
}

func fillLedger(ctx context.Context, srv *natsserver.Server, entries, size int) error {
	setup, err := srv.Connect(natsserver.RoleSetup)
	if err != nil {
		return err
	}
	defer setup.Close()
	js := wire.JetStream(setup)
	if err := wire.Ensure(ctx, js, wire.Storage{}); err != nil {
		return err
	}
	nc, err := srv.Connect(natsserver.RoleIngest)
	if err != nil {
		return err
	}
	defer nc.Close()
	if js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096)); err != nil {
		return err
	}
	body := make([]byte, size)
	rand.Read(body)
	for i := range entries {
		e := streams.Entry{Partition: i % streams.Partitions, Stage: streams.StageIngest, Type: streams.TypeObservation,
			Project: "demo", Src: uint64(i) + 1, Salt: streams.NewSalt(), Body: body}
		if _, err := js.PublishMsgAsync(wire.Msg(&e), jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
