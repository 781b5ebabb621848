//go:build race

package e2e

// raced reports that the tests run with the race detector. The programs that they start are then built
// with it too.
const raced = true

// racedTests are the tests that a short run with the race detector runs if -run names none. Between them they touch
// every stage.
const racedTests = "TestAnApprovalReleases|TestHoldsAndResolutionsSurvive|TestTheLogConvicts|TestAwaitHears|" +
	"TestAnActionRightAfter|TestAStandby|TestAfterAPoisonedRead|TestNothingThatAGroupWrites|TestAPoisonedSource|" +
	"TestAMemoryContains|TestAForgottenProject"
