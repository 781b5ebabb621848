// Package malformed tests HTTP servers with malformed requests and with clients that are killed during
// a request, while another client continues to work.
//
// It imports no other package of this module. Only tests import it. Begin reading with Target.Run.
package malformed
