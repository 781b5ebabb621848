package policy

import (
	"cmp"
	"fmt"
	"slices"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/keys"
)

// approvalText is the section on who may resolve a hold.
type approvalText struct {
	Role string `yaml:"role"`
}

func compileApproval(y *strictyaml.Document, path []any, t *approvalText) (keys.Role, error) {
	if t == nil {
		return "", nil
	}
	r := keys.Role(t.Role)
	if !r.Approver() {
		return "", y.Errorf(append(slices.Clip(path), "approval", "role"), "%w",
			fmt.Errorf("role %q does not resolve holds: use %s or %sNAME", t.Role, keys.RoleApprover, keys.ApproverPrefix))
	}
	return r, nil
}

// Approver returns the role that may resolve holds for which no entry requires another role. Holds
// of memory writes are among them.
func (p *Policy) Approver() keys.Role { return cmp.Or(p.approver, keys.RoleApprover) }

// require adds a role that the approver must have.
func (c *Class) require(r keys.Role) {
	if r != "" && !slices.Contains(c.Approvers, r) {
		c.Approvers = append(c.Approvers, r)
		slices.Sort(c.Approvers)
	}
}
