package daemon

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/datafolder"
	"lazaret/internal/natsserver"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// Auditor returns the daemon that copies the ledger to a tamper-evident log.
func Auditor() Daemon {
	var dir, key, from, policy string
	return Daemon{
		Name:  "auditor",
		Short: "Copy the ledger to a hash-chained log with Merkle proofs",
		Flags: func(c *cobra.Command) {
			c.Flags().StringVar(&dir, "dir", "", "folder of the `LOG` (default DATA/audit)")
			c.Flags().StringVar(&key, "key", "", "`FILE` of the key that signs checkpoints (default DATA/keys/auditor.key)")
			c.Flags().StringVar(&from, "from", "",
				"create a new log from the tiles of another auditor at this `URL`, if the ledger was trimmed")
			c.Flags().StringVar(&policy, "witnesses", "",
				"`FILE` of the policy whose witnesses cosign (default DATA/witnesses.policy)")
		},
		Run: func(ctx context.Context, e *Env) error {
			dir = cmp.Or(dir, datafolder.AuditDir(e.Conn.Data))
			key = cmp.Or(key, datafolder.AuditorKey(e.Conn.Data))
			policy = cmp.Or(policy, datafolder.WitnessPolicy(e.Conn.Data))
			cfg := auditor.Config{Dir: dir, WitnessPolicy: policy, Log: e.Log, Ready: func() {
				e.Log.Info("ready", "stage", "auditor")
			}}
			trust, err := e.Trust()
			if err != nil {
				return err
			}
			cfg.Operators, cfg.Pinned = trust.Verifiers(keys.RoleOperator), trust.Verifiers(keys.RoleAuditor)
			if from != "" {
				if cfg.From, err = chain.NewClient(from, nil); err != nil {
					return err
				}
				cfg.Trusted = trust.Verifiers(keys.RoleAuditor)
			}
			signer, err := keys.LoadSigner(key)
			if err != nil {
				return err
			}
			master, err := datafolder.MasterKey(e.Conn.Data)
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
			cfg.Conn, cfg.Signer, cfg.Origin, cfg.MasterKey = nc, signer, signer.Name(), master
			if cfg.Stats, err = e.Watch(natsserver.RoleAuditor, nc, nil); err != nil {
				return err
			}
			cfg.Metrics = e.Metrics().Auditor()
			return auditor.Run(ctx, cfg, svc)
		},
	}
}
