package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
)

func bindExpires(c *cobra.Command, d *time.Duration) {
	c.Flags().DurationVar(d, "expires", natsserver.AgentExpires, "`TIME` for which it is valid; 0: it never expires")
}

// expiresText is when a credential expires.
func expiresText(t time.Time, lasts time.Duration) string {
	if t.IsZero() || lasts == 0 {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// credentialName is the name that PROJECT AGENT, or a single NAME, stands for.
func credentialName(args []string) string {
	if len(args) == 2 {
		return natsfiles.AgentContext(args[0], args[1])
	}
	return args[0]
}

func (a *app) agentLs() *cobra.Command {
	var f cli.ListFlags
	var all bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the credentials that were made, until when they are valid, and which are revoked",
		Long: `List the credentials that were made with this data folder: those of agents that are
valid, and with --all also those of the pipeline's roles, and what is expired or revoked.
A credential of an older version is listed if its file is still in DATA/creds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.conn.Resolve()
			issued, err := natsserver.Credentials(a.conn.Data)
			if err != nil {
				return err
			}
			type row struct {
				Name    string           `json:"name"`
				Project string           `json:"project"`
				Agent   string           `json:"agent"`
				Role    string           `json:"role"`
				Origins []beliefs.Origin `json:"origins"`
				State   string           `json:"state"`
				Issued  string           `json:"issued"`
				Expires string           `json:"expires"`
				User    string           `json:"user"`
			}
			var rows []row
			for _, i := range issued {
				r := row{Name: i.Name, Role: string(i.Role), State: i.State(time.Now()), Issued: i.Issued.Format(time.RFC3339),
					Expires: expiresText(i.Expires, 1), User: i.User}
				if i.Agent != nil {
					r.Project, r.Agent, r.Origins = i.Agent.Project, i.Agent.Name, i.Agent.Origins
				}
				if all || i.Agent != nil && r.State == "valid" {
					rows = append(rows, r)
				}
			}
			return cli.Print(cmd.OutOrStdout(), f, rows, []string{"NAME", "STATE", "ISSUED", "EXPIRES", "ORIGINS", "KEY"},
				func(r row) []string {
					return []string{r.Name, r.State, r.Issued, r.Expires, strings.Trim(fmt.Sprint(r.Origins), "[]"), r.User}
				})
		},
	}
	f.Bind(c.Flags())
	c.Flags().BoolVar(&all, "all", false, "also those of roles, and what is expired or revoked")
	return c
}

func (a *app) agentRotate() *cobra.Command {
	var lasts time.Duration
	var keepOld bool
	c := &cobra.Command{
		Use:   "rotate PROJECT AGENT | NAME",
		Short: "Make a new credential of the same rights, and revoke the old one",
		Long: `Make a credential with a new key and the rights of the one that is there, in its file,
and revoke the old one. A host that reads the file in the data folder goes on by
itself: its client reads it again when the server refuses the old one. For another
host use --keep-old, bring it the new file, and then revoke the old credential with
"lazaret agent revoke --old".

NAME is a credential as "lazaret agent ls --all" lists it, such as operator.`,
		Example: "  lazaret agent rotate acme support --keep-old\n  lazaret agent revoke acme support --old",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.conn.Resolve()
			m, err := natsserver.OpenMinter(a.conn.Data)
			if err != nil {
				return err
			}
			var d *time.Duration
			if cmd.Flags().Changed("expires") {
				d = &lasts
			}
			name := credentialName(args)
			i, err := m.Rotate(name, d, keepOld)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "credential   %s\nexpires      %s\n", natsserver.CredsFile(a.conn.Data, i.Name),
				expiresText(i.Expires, 1))
			if keepOld {
				fmt.Fprintf(cmd.OutOrStdout(),
					"the old one is valid: when the host has the new one, lazaret agent revoke %s --old\n", strings.Join(args, " "))
				return nil
			}
			a.saySpread(cmd)
			return nil
		},
	}
	bindExpires(c, &lasts)
	c.Flags().Lookup("expires").DefValue = "as long as the one before"
	c.Flags().BoolVar(&keepOld, "keep-old", false, "leave the old one valid")
	return c
}

func (a *app) agentRevoke() *cobra.Command {
	var old bool
	c := &cobra.Command{
		Use:   "revoke PROJECT AGENT | NAME | KEY",
		Short: "Revoke a credential: the server ends its connections and refuses it",
		Long: `Revoke the credentials of an agent, of a NAME as "lazaret agent ls --all" lists it, or
of the public KEY of a user, which need not be listed. "lazaret up" takes it up at
once. For servers of your own it is in DATA/keys/accounts.conf: copy that file to each
and have it reload.`,
		Example: "  lazaret agent revoke acme support",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.conn.Resolve()
			m, err := natsserver.OpenMinter(a.conn.Data)
			if err != nil {
				return err
			}
			n, err := m.Revoke(credentialName(args), old)
			if err != nil {
				return err
			}
			if n == 0 {
				if err := a.revokedBefore(cmd, credentialName(args), old); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "revoked %d\n", n)
			}
			a.saySpread(cmd)
			if !old {
				return a.refusedNow(cmd, credentialName(args))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&old, "old", false, "only those before the latest: those that a rotation has left")
	return c
}

// revokedBefore prints that there was nothing left to revoke.
func (a *app) revokedBefore(cmd *cobra.Command, name string, old bool) error {
	if old {
		fmt.Fprintf(cmd.OutOrStdout(), "nothing to revoke: %s has no credential before the latest that is not revoked\n",
			name)
		return nil
	}
	all, err := natsserver.Credentials(a.conn.Data)
	if err != nil {
		return err
	}
	var last time.Time
	for _, c := range all {
		if (c.Name == name || c.User == name) && c.Revoked.After(last) {
			last = c.Revoked
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(),
		"nothing to revoke: %s was revoked already, at %s; lazaret agent rotate %s makes it anew\n", name,
		last.Format(time.RFC3339), name)
	return nil
}

// saySpread prints how servers of one's own learn of a revocation.
func (a *app) saySpread(cmd *cobra.Command) {
	file := natsserver.AccountsFile(a.conn.Data)
	if _, err := os.Stat(file); err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "servers of your own: copy %s to each, then nats-server --signal reload=PID\n", file)
	}
}

// refusedNow prints which servers refuse the credential of that name, if its file is
// there, and fails if a reached server does not.
func (a *app) refusedNow(cmd *cobra.Command, name string) error {
	file := natsserver.CredsFile(a.conn.Data, name)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	url, err := natsserver.ContextURL(a.conn.Data, "operator")
	if err != nil || url == "" {
		return nil
	}
	var still []string
	for _, u := range strings.Split(url, ",") {
		refused, err := refuses(u, file)
		switch {
		case err != nil:
			fmt.Fprintf(cmd.OutOrStdout(), "%s is not reached: %v\n", u, err)
		case refused:
			fmt.Fprintf(cmd.OutOrStdout(), "%s refuses it\n", u)
		default:
			still = append(still, u)
		}
	}
	if len(still) > 0 {
		return &cli.Exit{Code: cli.ExitIncomplete, Text: strings.Join(still, ", ") +
			" still accepts the credential: have it reload its configuration, then look again with the same command"}
	}
	return nil
}

// refuses waits until a server refuses a credential; false if it does not in time.
func refuses(url, file string) (bool, error) {
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		nc, err := nats.Connect(url, nats.UserCredentials(file), nats.Timeout(2*time.Second), nats.IgnoreDiscoveredServers())
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthRevoked) ||
			errors.Is(err, nats.ErrAuthExpired) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		nc.Close()
		if time.Now().After(deadline) {
			return false, nil
		}
	}
}
