/* doctor_kvm.c - can this process run a virtual machine? Runs one with a single instruction: HLT */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kvm.h>

#include <keyhole/base/cleanup.h>

#include "doctor_internal.h"

#define GROUP "kernel"
#define NAME "kvm"

enum { API = 12, PAGE = 4096 };

static void cannot(struct kh_doctor_report *report, const char *what)
{
	int why = errno;
	const char *help = why == ENOENT
				   ? "load kvm_intel or kvm_amd; in a virtual machine the host "
				     "must allow nested ones"
			   : why == EACCES ? "add yourself to the group kvm: `usermod -aG kvm NAME`"
					   : "is another hypervisor in the way?";
	kh_doctor_add(report, GROUP, NAME, KH_DOCTOR_WARNING,
		      "%s: %s (%s); engines without a "
		      "second kernel do without it",
		      what, strerror(why), help);
}

#ifdef __x86_64__
/* The guest's one page holds zeroes and a HLT, at its address 0, in real mode. Return:
 * the reason of the exit, -1 with errno. */
static int run_dynamic_sandbox(int vm, size_t run_bytes)
{
	unsigned char *memory =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	memory[0] = 0xf4;
	struct kvm_userspace_memory_region region = {
		.memory_size = PAGE,
		.userspace_addr = (uintptr_t)memory,
	};
	kh_auto_close int cpu = ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) == 0
					? ioctl(vm, KVM_CREATE_VCPU, 0)
					: -1;
	struct kvm_run *run =
		cpu < 0 ? MAP_FAILED
			: mmap(NULL, run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	struct kvm_sregs special;
	struct kvm_regs registers = { .rflags = 2 };
	int reason = -1;
	if (run != MAP_FAILED && ioctl(cpu, KVM_GET_SREGS, &special) == 0) {
		special.cs.base = special.cs.selector = 0;
		if (ioctl(cpu, KVM_SET_SREGS, &special) == 0 &&
		    ioctl(cpu, KVM_SET_REGS, &registers) == 0 && ioctl(cpu, KVM_RUN, 0) == 0)
			reason = (int)run->exit_reason;
	}
	int why = errno;
	if (run != MAP_FAILED)
		munmap(run, run_bytes);
	munmap(memory, PAGE);
	errno = why;
	return reason;
}
#endif

void kh_doctor_kvm(struct kh_doctor_report *report)
{
	kh_auto_close int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0) {
		cannot(report, "/dev/kvm");
		return;
	}
	kh_auto_close int vm =
		ioctl(kvm, KVM_GET_API_VERSION, 0) == API ? ioctl(kvm, KVM_CREATE_VM, 0) : -1;
	if (vm < 0) {
		cannot(report, "making a virtual machine");
		return;
	}
#ifdef __x86_64__
	int bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	int reason = bytes > 0 ? run_dynamic_sandbox(vm, (size_t)bytes) : -1;
	if (reason < 0) {
		cannot(report, "running a virtual machine");
		return;
	}
	if (reason == KVM_EXIT_HLT)
		kh_doctor_add(report, GROUP, NAME, KH_DOCTOR_OK, "a guest ran and halted");
	else
		kh_doctor_add(report, GROUP, NAME, KH_DOCTOR_WARNING,
			      "a guest of one instruction ended with exit %d", reason);
#else
	kh_doctor_add(report, GROUP, NAME, KH_DOCTOR_OK,
		      "a virtual machine was made (none was run)");
#endif
}
