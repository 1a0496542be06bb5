/* main.c - keyhole-init: PID 1 of a sandbox */
int main(void)
{
	return 125;
}
