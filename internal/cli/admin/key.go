package admin

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// pin adds a public key to the data folder's trust file.
func pin(a *verb.App, public, agent string, roles []string) error {
	a.Conn.Resolve()
	file := datafolder.TrustFile(a.Conn.Data)
	pin := keys.Pin{Key: public, Agent: agent}
	for _, r := range roles {
		pin.Roles = append(pin.Roles, keys.Role(r))
	}
	err := datafolder.WithTrustFile(file, func() error {
		t, err := keys.LoadTrust(file)
		if err != nil {
			return err
		}
		if err := t.Add(pin); err != nil {
			return err
		}
		return t.Write(file)
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "pinned in", file+"; an approver's key counts after lazaret key "+
		"activate, an operator's key after the daemons' next start")
	return nil
}

func init() { Verbs.Add("", keyCommand) }

func keyCommand(a *verb.App) *cobra.Command {
	var roles, pinned []string
	var agent string
	gen := &cobra.Command{
		Use:   "gen NAME FILE",
		Short: "Make a signing key and print its public key",
		Long: `Make an Ed25519 signing key. The private key is written to FILE, readable only by its
owner; the public key is printed. --pin also pins it in the data folder's trust file for
the given roles.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			private, public, err := keys.Generate(args[0])
			if err != nil {
				return err
			}
			if err := keys.WritePrivate(args[1], private); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), public)
			if len(roles) == 0 {
				return nil
			}
			return pin(a, public, agent, roles)
		},
	}
	pin := &cobra.Command{
		Use:   "pin KEY",
		Short: "Pin an existing public key, such as a passkey's",
		Long: `Pin a public key in the data folder's trust file. A passkey is registered in the
console, which prints this command. A passkey signs decisions on holds and on beliefs only.`,
		Example: "  lazaret key pin alice+1b2c3d4e+/2xhe… --role approver && lazaret key activate",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return pin(a, args[0], agent, pinned) },
	}
	pin.Flags().StringSliceVar(&pinned, "role", []string{string(keys.RoleApprover)},
		"`ROLES`: operator, approver, approver:NAME, auditor, probe")
	pin.Flags().StringVar(&agent, "agent", "",
		"the agent that owns the key, as `PROJECT/AGENT`: the key cannot resolve this agent's holds")
	gen.Flags().StringSliceVar(&roles, "pin", nil,
		"pin the new key for these `ROLES`: operator, approver, approver:NAME, auditor, probe")
	gen.Flags().StringVar(&agent, "agent", "",
		"the agent that owns the key, as `PROJECT/AGENT`: the key cannot resolve this agent's holds")
	activate := a.Activate("activate [FILE]",
		"Sign the trust file and activate its approvers (default: the data folder's trust file)", streams.DoActivateTrust,
		func(args []string) ([]byte, error) {
			a.Conn.Resolve()
			file := datafolder.TrustFile(a.Conn.Data)
			if len(args) == 1 {
				file = args[0]
			}
			if _, err := keys.LoadTrust(file); err != nil {
				return nil, err
			}
			return os.ReadFile(file)
		})
	return verb.Group("key", "Signing keys", gen, pin, activate)
}
