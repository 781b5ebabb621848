// Command auditor keeps the ledger in a tamper-evident log.
package main

import (
	"context"

	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/daemon"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/pkg/keys"
)

func main() {
	var dir, key string
	daemon.Daemon{
		Name:  "auditor",
		Short: "Keep the ledger in a hash-chained, Merkle-proven log",
		Flags: func(c *cobra.Command) {
			c.Flags().StringVar(&dir, "dir", "", "folder of the `LOG` (default DATA/audit)")
			c.Flags().StringVar(&key, "key", "", "`FILE` of the key that signs checkpoints (default DATA/keys/auditor.key)")
		},
		Run: func(ctx context.Context, e *daemon.Env) error {
			if dir == "" {
				dir = embedded.AuditDir(e.Conn.Data)
			}
			if key == "" {
				key = embedded.AuditorKey(e.Conn.Data)
			}
			signer, err := keys.LoadSigner(key)
			if err != nil {
				return err
			}
			master, err := embedded.MasterKey(e.Conn.Data)
			if err != nil {
				return err
			}
			nc, err := e.Connect(natsserver.RoleAuditor)
			if err != nil {
				return err
			}
			svc, err := e.Connect(natsserver.RoleService)
			if err != nil {
				return err
			}
			return auditor.Run(ctx, auditor.Config{Conn: nc, Dir: dir, Signer: signer, Origin: signer.Name(), MasterKey: master, Log: e.Log,
				Stats: e.Watch(natsserver.RoleAuditor, nc, nil), Metrics: e.Metrics().Auditor(),
				Ready: func() { e.Log.Info("ready", "stage", "auditor") }}, svc)
		},
	}.Main()
}
