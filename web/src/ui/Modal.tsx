import type { ReactNode } from "react";
import { Dialog, Heading, Modal as AriaModal, ModalOverlay } from "react-aria-components";

type Props = { title: ReactNode; onClose: () => void; children: ReactNode; wide?: boolean; label?: string };

/** A dialog that keeps the focus, closes on Escape, and gives the focus back. */
export function Modal({ title, onClose, children, wide, label }: Props) {
  return (
    <ModalOverlay isOpen isDismissable onOpenChange={(open) => !open && onClose()} className="overlay">
      <AriaModal className={wide ? "modal modal-wide" : "modal"}>
        <Dialog className="dialog" aria-label={label}>
          {title ? (
            <Heading slot="title" className="dialog-title">
              {title}
            </Heading>
          ) : null}
          {children}
        </Dialog>
      </AriaModal>
    </ModalOverlay>
  );
}
