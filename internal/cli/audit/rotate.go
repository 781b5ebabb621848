package audit

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/pkg/chain"
	"lazaret/pkg/files"
	"lazaret/pkg/keys"
)

func init() { Verbs.Add("audit", rotateCommand) }

func rotateCommand(a *verb.App) *cobra.Command {
	var dir, key, trust string
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the key that signs checkpoints, and record that in the log",
		Long: `Make a new signing key, sign the handover with the old and the new key, store it in the
log, pin the new public key, and replace the old key, whose file is kept beside the new
one. A verifier that trusts the old key follows the handover to the new one; later
signatures of the old key are not accepted.

Stop the auditor first. The command prints the new key and the size of the log at which it
replaced the old key; the trust file has both too. Witnesses and others who pinned the old
key need them.

For an auditor that runs apart, name its data folder, log and key as for the auditor. To
make and pin the new key beforehand, put it into FILE.next, beside the key FILE, under the
name of the old key (lazaret key gen). The command takes that key as the new one. If the
command was interrupted, repeat it. It refuses, before it changes anything, a new key that
was replaced already or has another name or role, and a FILE that is not the key in force.`,
		Example: "  lazaret audit rotate\n  lazaret audit rotate --data /etc/lazaret/auditor --dir " +
			"/var/lib/lazaret-auditor/audit",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			trust = cmp.Or(trust, datafolder.TrustFile(a.Conn.Data))
			var public string
			err := datafolder.WithTrustFile(trust, func() (err error) {
				public, err = rotate(a.Conn.Data, dir, key, trust)
				return err
			})
			if errors.Is(err, chain.ErrLocked) {
				return fmt.Errorf("%w: stop the auditor (or lazaret up) first", err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), public)
			pinned, err := keys.LoadTrust(trust)
			if err != nil {
				return err
			}
			for _, p := range pinned.Pins() {
				if p.ReplacedAt != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s now has replaced_at: %d for %s; add the same line to other trust files\n",
						trust, *p.ReplacedAt, p.Key)
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the `LOG` (default DATA/audit)")
	c.Flags().StringVar(&key, "key", "", "`FILE` of the key that signs checkpoints (default DATA/keys/auditor.key)")
	c.Flags().StringVar(&trust, "trust", "", "`FILE` of the pinned keys (default DATA/trust.yaml)")
	return c
}

// rotate replaces the auditor's key. Before it changes anything, it refuses keys that cannot hand the log over. The old
// key stays in place until the log has stored the handover, and from then on the handover determines the valid key. So
// after an interruption, rotate can be repeated, or the auditor can be started. An empty dir means the log in the data
// folder, an empty file the key there.
func rotate(data, dir, file, trustFile string) (public string, err error) {
	dir, file = cmp.Or(dir, datafolder.AuditDir(data)), cmp.Or(file, datafolder.AuditorKey(data))
	old, err := readKey(file)
	if err != nil {
		return "", err
	}
	next, err := readKey(file + ".next")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	trust, err := keys.LoadTrust(trustFile)
	if err != nil {
		return "", err
	}
	master, err := datafolder.ReadMasterKey(data)
	if err != nil {
		return "", err
	}
	if master == nil {
		return "", errors.New("there is no key that decrypts the log: put DATA/keys/audit-master.key back")
	}
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("there is no log: %w", err)
	}
	l, err := chain.Open(dir, chain.Options{Signer: old.signer, MasterKey: master})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	r := &rotation{log: l, trust: trust, trustFile: trustFile, old: old, next: next}
	stored, err := r.check()
	if err != nil {
		return "", err
	}
	if next == nil {
		if next, err = makeKey(old.signer.Name(), file+".next"); err != nil {
			return "", err
		}
	}
	if _, pinned := trust.Find(next.signer.Name(), next.signer.KeyHash()); !pinned {
		if err := trust.Add(keys.Pin{Key: next.public, Roles: []keys.Role{keys.RoleAuditor},
			Comment: "made by audit rotate"}); err != nil {
			return "", err
		}
		if err := trust.Write(trustFile); err != nil {
			return "", err
		}
	}
	if !stored {
		if _, err := l.Checkpoint(); err != nil {
			return "", err
		}
		if _, err := l.Handover(next.signer, next.public); err != nil {
			return "", err
		}
	}
	if err := recordReplaced(l, trust, trustFile); err != nil {
		return "", err
	}
	if _, err := keys.SetAside(file); err != nil {
		return "", err
	}
	return next.public, files.Rename(next.file, file)
}

// recordReplaced records in the trust file at which size of the log each key was replaced. A verifier of a single
// checkpoint or proof does not see the handovers. From the recorded size it knows which signatures a replaced key made
// later, and refuses them.
func recordReplaced(l *chain.Log, trust *keys.Trust, file string) error {
	handovers, err := l.Handovers()
	if err != nil {
		return err
	}
	changed := false
	for _, h := range handovers {
		old, _, err := chain.Replaced(h, trust.Verifiers(keys.RoleAuditor))
		if err != nil {
			continue // the replaced key is no longer pinned
		}
		cp, err := chain.ParseCheckpoint(h)
		if err != nil {
			return err
		}
		for _, k := range old {
			changed = trust.Replaced(k, cp.Size) || changed
		}
	}
	if !changed {
		return nil
	}
	return trust.Write(file)
}
