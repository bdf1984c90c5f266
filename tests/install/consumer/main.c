/* A user of the installed library in C that needs no GPU: it makes a bad call and reads the answer.
 */
#include <attnjit.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  attnjit_forward_args args = ATTNJIT_FORWARD_ARGS_INIT; /* no tensors: every axis is 0 */
  attnjit_context* context = NULL;
  int expected = 0;
  if (attnjit_context_create(NULL, &context) != ATTNJIT_OK) {
    printf("no context: %s\n", attnjit_last_error());
    return 1;
  }
  expected = attnjit_forward(context, &args, NULL, NULL, 0) == ATTNJIT_INVALID_PROBLEM &&
             strstr(attnjit_last_error(), "q: head axis is 0") != NULL;
  printf("%s: %s\n", expected ? "refused as it should be" : "unexpected", attnjit_last_error());
  attnjit_context_destroy(context);
  return expected ? 0 : 1;
}
