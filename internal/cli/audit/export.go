package audit

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/inquiry"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// verifyExport verifies an export against checkpoints.
func verifyExport(a *verb.App, cmd *cobra.Command, f verifyFlags) error {
	if f.dir != "" || f.bundle != "" || f.from != 0 || f.to != 0 || f.policy != "" || f.json {
		return errors.New("--export compares a whole export with checkpoints: leave out all other flags than --against " +
			"and --keys")
	}
	in, err := os.Open(f.export)
	if err != nil {
		return err
	}
	defer in.Close()
	x, err := inquiry.ReadExport(in)
	if err != nil {
		return cli.Negative("FAILED: %s: %v", f.export, err)
	}
	root, err := x.Root(x.Size)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%d leaves, root %s\n", x.Size, root)
	against, err := readAll(f.against)
	if err != nil {
		return err
	}
	if len(against) == 0 {
		return &cli.Exit{Code: cli.ExitIncomplete, Text: "there is no checkpoint to compare the export " +
			"with: give one with --against"}
	}
	trust, err := auditorKeys(a)
	if f.keys != "" {
		trust, err = keys.LoadTrust(f.keys)
	}
	if err != nil {
		return err
	}
	for i, b := range against {
		cp, err := chain.OpenSigned(b, trust.Verifiers(keys.RoleAuditor), nil)
		if err != nil {
			return fmt.Errorf("%s: %w", f.against[i], err)
		}
		switch root, err := x.Root(cp.Size); {
		case err != nil:
			return cli.Negative("FAILED: %s: %v", f.against[i], err)
		case root != cp.Root:
			return cli.Negative("FAILED: the export's first %[2]d leaves do not have the root of the checkpoint %[1]s, "+
				"%[3]s", f.against[i], cp.Size, cp.Root)
		default:
			fmt.Fprintf(out, "%s: the checkpoint's %d leaves, of log %s, are those of the "+
				"export\n", f.against[i], cp.Size, cp.Origin)
		}
	}
	return &cli.Exit{Code: cli.ExitIncomplete, Text: "INCOMPLETE: the leaves are those of the checkpoints; the bodies " +
		"were not checked, because a check of bodies requires the log or a bundle"}
}
