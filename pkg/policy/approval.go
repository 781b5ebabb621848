package policy

import (
	"cmp"
	"fmt"
	"slices"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/keys"
)

// approvalText says who may resolve a hold.
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

// Approver is the role of those who resolve holds for which no entry asks for
// another, memory writes among them.
func (p *Policy) Approver() keys.Role { return cmp.Or(p.approver, keys.RoleApprover) }

// require adds a role to those that an approver needs.
func (c *Class) require(r keys.Role) {
	if r != "" && !slices.Contains(c.Approvers, r) {
		c.Approvers = append(c.Approvers, r)
		slices.Sort(c.Approvers)
	}
}
